// SPDX-License-Identifier: Apache-2.0
// Runs pipelines of sleeping stages.
#include "bubble_measure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../trainer/trainer.hpp"
#include "measured_cost.hpp"
#include "virtual_model.hpp"

namespace training {
namespace {

constexpr std::size_t kChannels = 16;  // what is sent and updated is small beside the sleep

BubbleResult measure(Mesh& mesh, const BubbleOptions& options, PipelineKind kind,
                     std::size_t leaves) {
  Arena arena;
  const VirtualSource source;
  const std::size_t stages = mesh.shape().pipeline;
  const auto units_of_stage =
      static_cast<std::int64_t>(virtual_units(kChannels, {}).size() / stages);
  TrainerOptions trainer_options;
  trainer_options.leaves = leaves;
  trainer_options.pipeline = kind;
  Trainer trainer(trainer_options, virtual_units(kChannels, options.forward / units_of_stage),
                  source, mesh, arena,
                  [](const Owned& /*owned*/) { return std::make_unique<VirtualOptimizer>(); });
  std::size_t now = 0, most = 0;
  const std::size_t last = trainer.units().size() - 1;
  trainer.stage().observe([&](Pass pass, std::size_t unit, Clock::time_point /*begin*/) {
    if (pass == Pass::forward && unit == last) most = std::max(most, ++now);
    if (pass == Pass::backward && unit == 0) --now;
  });
  trainer.step();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < options.steps; ++i) {
    // Passes of all stages begin together.
    value_of(mesh.world.barrier());
    const StepResult result = trainer.step();
    seconds.push_back(result.forward + result.backward + result.communication.exposed);
  }
  // The step lasts until the last stage is done.
  value_of(mesh.world.all_reduce<double>(seconds, COLL_MAX));
  std::vector<std::uint64_t> held = {most};
  value_of(mesh.world.all_reduce<std::uint64_t>(held, COLL_MAX));
  const double busy =
      3 * static_cast<double>(leaves) * std::chrono::duration<double>(options.forward).count();
  return {kind, stages, leaves, 1 - busy / median(seconds), bubble(stages, leaves), held[0]};
}

}  // namespace

std::vector<BubbleResult> measure_bubble(collectives::Communicator world,
                                         const BubbleOptions& options) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t units = virtual_units(kChannels, {}).size();
  if (units % ranks != 0) {
    throw Failure(fmt::format("the bubble is measured with {} equal units, which {} ranks cannot "
                              "share evenly: start 1, 2, 4 or 8",
                              units, ranks),
                  Failure::kBadUsage);
  }
  Mesh mesh(std::move(world), {.pipeline = ranks}, true);
  std::vector<BubbleResult> results;
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_forward_one_backward})
    for (const std::size_t leaves : options.leaves)
      results.push_back(measure(mesh, options, kind, leaves));
  return results;
}

}  // namespace training
