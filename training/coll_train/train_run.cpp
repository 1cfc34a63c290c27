// SPDX-License-Identifier: Apache-2.0
// The loop of steps, validations and checkpoints.
#include "train_run.hpp"

#include <fmt/format.h>

#include <csignal>
#include <optional>

#include "../estimate/estimate.hpp"
#include "../hooks/make_hook.hpp"
#include "../parallel/tensor_parallel.hpp"
#include "../report/peak_flops.hpp"
#include "../safetensors/safetensors_reader.hpp"
#include "export_weights.hpp"
#include "optimizer_place.hpp"
#include "run_checkpoints.hpp"
#include "run_monitor.hpp"
#include "run_parts.hpp"

namespace training {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

MeshShape complete(const MeshShape& shape, std::size_t ranks) {
  MeshShape mesh = shape;
  if (mesh.data == 0) mesh.data = std::max<std::size_t>(ranks / (mesh.tensor * mesh.pipeline), 1);
  return mesh;
}

RunFacts facts_of(const TrainOptions& options, const Source& source, Mesh& mesh) {
  double peak = 0;
  value_of(mesh.world.barrier());
  peak = peak_flops();
  value_of(mesh.world.all_reduce<double>({&peak, 1}));
  const MeshShape& shape = mesh.shape();
  RunFacts facts;
  facts.name = "coll-train";
  facts.facts = {
      {"model", describe_model(options, source)},
      {"data", source.describe()},
      {"ranks", fmt::format("{}: {} data x {} tensor x {} pipeline", shape.ranks(), shape.data,
                            shape.tensor, shape.pipeline)},
      {"layout", options.trainer.zero == 0 ? std::string("data parallel, whole on each rank")
                                           : fmt::format("ZeRO stage {}", options.trainer.zero)},
      {"formats", fmt::format("weights {}, gradients {}", name_of(options.trainer.weights),
                              name_of(options.trainer.gradients))},
      {"step", fmt::format("{} micro-batches of {} rows", options.trainer.leaves,
                           source.shape().targets())}};
  facts.rank = mesh.rank();
  facts.ranks = shape.ranks();
  facts.total_steps = options.steps;
  facts.peak_flops = peak;
  return facts;
}

void load_first_weights(const std::string& path, const std::vector<WholeParameter>& whole,
                        Trainer& trainer) {
  const SafetensorsReader reader(path);
  reader.check(whole);
  trainer.load(
      [&](const Trainer::Part& part) {
        if (part.state != State::weights) return;  // they begin as 0
        read_part(part, [&](std::size_t first, std::span<float> values) {
          reader.read(part.parameter.name, first, values);
        });
      },
      0, trainer.scaler());
}

/// What the ranks decide together after each step.
struct Decision {
  std::int32_t stop = 0;     ///< ranks that were asked to stop, or have no time left
  std::int32_t written = 0;  ///< ranks that have written their part of a checkpoint
};

}  // namespace

void print_estimate(const TrainOptions& options, std::size_t ranks) {
  const auto source = make_source(options);
  const MeshShape mesh = complete(options.mesh, ranks);
  if (mesh.pipeline > 1 || mesh.tensor > 1)
    throw Failure("--estimate counts data-parallel ranks only; leave out --tp and --pp",
                  Failure::kBadUsage);
  fmt::print("{}", estimate_table(options.trainer, make_units(options, *source, nullptr),
                                  {source->shape().sequences, source->shape().tokens, {}, {}},
                                  {.checkpoint = options.trainer.checkpoint}, mesh.data,
                                  options.offload != "none"));
}

int run_training(const TrainOptions& options, collectives::Communicator world) {
  const auto began = Clock::now();
  const auto ranks = static_cast<std::size_t>(world.size());
  Mesh mesh(std::move(world), complete(options.mesh, ranks), options.same_bits);
  const auto source = make_source(options);
  const auto whole = whole_parameters(options, *source);
  Arena arena = options.device_memory == 0 ? Arena() : Arena(options.device_memory);
  TensorPartners<float> partners(mesh.tensor);
  OptimizerPlace place(options, arena);
  const auto hook = options.hook.empty() ? nullptr : make_hook(options.hook, arena);
  Trainer trainer(
      options.trainer, make_units(options, *source, mesh.shape().tensor > 1 ? &partners : nullptr),
      *source, mesh, arena, [&](Owned owned) { return place.make(std::move(owned)); }, hook.get());
  if (!options.init.empty()) load_first_weights(options.init, whole, trainer);
  std::optional<RunCheckpoints> checkpoints;
  std::string resumed;
  if (!options.save.empty()) {
    checkpoints.emplace(options.save, options.keep, mesh, whole, settings_text(options));
    resumed = checkpoints->resume(trainer);
  }
  RunFacts facts = facts_of(options, *source, mesh);
  facts.facts.emplace_back("optimizer", place.describe());
  RunMonitor monitor(options, std::move(facts), step_flops(options, *source), mesh, arena, trainer);
  monitor.say(resumed);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_asked = 1; });

  for (bool going = trainer.steps() < options.steps; going;) {
    const StepResult step = trainer.step();
    Decision decision;
    const std::chrono::duration<double> elapsed = Clock::now() - began;
    decision.stop = stop_asked != 0 || (options.seconds > 0 && elapsed.count() > options.seconds);
    decision.written = checkpoints && checkpoints->written() ? 1 : 0;
    value_of(mesh.world.all_reduce<std::int32_t>({&decision.stop, 2}));
    going = trainer.steps() < options.steps && decision.stop == 0;

    std::string note;
    if (decision.written == static_cast<std::int32_t>(ranks)) note = checkpoints->commit();
    if (checkpoints && going && options.save_every > 0 && trainer.steps() % options.save_every == 0)
      checkpoints->save(trainer);
    std::optional<StepResult> validation;
    if (!going || (options.validate_every > 0 && trainer.steps() % options.validate_every == 0))
      validation = trainer.validate(options.validation_batches);
    monitor.after(step, validation ? &*validation : nullptr, note);
  }
  if (checkpoints) {
    monitor.say(checkpoints->finish());
    checkpoints->save(trainer);
    monitor.say(checkpoints->finish());
  }
  if (!options.exported.empty()) export_weights(trainer, mesh, whole, options.exported);
  monitor.finish();
  return 0;
}

}  // namespace training
