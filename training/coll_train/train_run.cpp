// SPDX-License-Identifier: Apache-2.0
// The loop of steps, validations and checkpoints.
#include "train_run.hpp"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "../estimate/estimate.hpp"
#include "../hooks/make_hook.hpp"
#include "../math/open_blas.hpp"
#include "../parallel/tensor_parallel.hpp"
#include "../report/peak_flops.hpp"
#include "../safetensors/safetensors_reader.hpp"
#include "agreement.hpp"
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
      {"matrix products", describe_products()},
      {"step", fmt::format("{} micro-batches of {} rows", options.trainer.leaves,
                           source.shape().targets())}};
  facts.rank = mesh.rank();
  facts.ranks = shape.ranks();
  facts.total_steps = options.steps;
  facts.peak_flops = peak;
  return facts;
}

void load_first_weights(const SafetensorsReader& reader, Trainer& trainer) {
  trainer.load(
      [&](const Trainer::Part& part) {
        if (part.state != State::weights) return;  // they begin as 0
        read_part(part, [&](std::size_t first, std::span<float> values) {
          reader.read(part.parameter.name, first, values);
        });
      },
      0, trainer.scaler());
}

/// What is missing is told before hours of training, not after them.
void check_folders(const TrainOptions& options) {
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, fs::path>> needed;
  if (options.offload != "none" && options.offload != "cpu")
    needed.emplace_back("--offload", options.offload);
  const auto add = [&](const char* option, const std::string& file) {
    if (!file.empty()) needed.emplace_back(option, fs::absolute(file).parent_path());
  };
  add("--export", options.exported);
  add("--log", options.log);
  add("--prometheus", options.prometheus);
  add("--trace", options.trace);
  for (const auto& [option, folder] : needed) {
    if (fs::is_directory(folder)) continue;
    throw Failure(fmt::format("{}: there is no folder {}", option, folder.string()),
                  Failure::kBadUsage);
  }
}

/// What the ranks decide together after each step.
struct Decision {
  std::int32_t stop = 0;     ///< ranks that were asked to stop, or have no time left
  std::int32_t written = 0;  ///< ranks that have written their part of a checkpoint
};

/// The parts of a run, in the order in which they are made.
class TrainRun {
 public:
  explicit TrainRun(const TrainOptions& options)
      : options_(options), place_(options, arena_, host_) {}
  void start(collectives::Communicator world);
  void train();
  void finish();

 private:
  void make_parts();
  [[nodiscard]] Decision decide();

  const TrainOptions& options_;
  Clock::time_point began_ = Clock::now();
  std::unique_ptr<Source> source_;
  std::vector<WholeParameter> whole_;
  std::optional<Mesh> mesh_;
  Arena arena_ = options_.device_memory == 0 ? Arena() : Arena(options_.device_memory);
  HostMemory host_;
  std::optional<TensorPartners<float>> partners_;
  OptimizerPlace place_;
  std::unique_ptr<Hook> hook_;
  std::optional<Trainer> trainer_;
  std::optional<RunCheckpoints> checkpoints_;
  std::optional<RunMonitor> monitor_;
  std::size_t first_step_ = 0;
};

void TrainRun::start(collectives::Communicator world) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_asked = 1; });
  const MeshShape shape = complete(options_.mesh, static_cast<std::size_t>(world.size()));
  std::optional<SafetensorsReader> first_weights;
  agree(world, [&] {
    check_ranks(shape, static_cast<std::size_t>(world.size()));
    check_folders(options_);
    source_ = make_source(options_);
    whole_ = whole_parameters(options_, *source_);
    if (!options_.init.empty()) first_weights.emplace(options_.init).check(whole_);
  });
  mesh_.emplace(std::move(world), shape, options_.same_bits);
  agree_on_usage(mesh_->world, [&] { make_parts(); });
  if (first_weights) load_first_weights(*first_weights, *trainer_);
  std::string resumed;
  if (!options_.save.empty()) {
    checkpoints_.emplace(options_.save, options_.keep, *mesh_, whole_,
                         settings_text(options_, *source_));
    agree_on_usage(mesh_->world, [&] { resumed = checkpoints_->resume(*trainer_); });
  }
  first_step_ = trainer_->steps();
  RunFacts facts = facts_of(options_, *source_, *mesh_);
  facts.facts.emplace_back("optimizer", place_.describe());
  monitor_.emplace(options_, std::move(facts), step_flops(options_, *source_), *mesh_, arena_,
                   *trainer_, place_.work());
  monitor_->say(resumed);
  const bool silent = options_.quiet || options_.json;
  if (silent && mesh_->rank() == 0 && checkpoints_ && checkpoints_->went_back())
    fmt::print(stderr, "coll-train: {}\n", resumed);
}

void TrainRun::make_parts() {
  partners_.emplace(mesh_->tensor);
  if (!options_.hook.empty()) hook_ = make_hook(options_.hook, arena_);
  trainer_.emplace(
      options_.trainer,
      make_units(options_, *source_, mesh_->shape().tensor > 1 ? &*partners_ : nullptr), *source_,
      *mesh_, arena_, [&](Owned owned) { return place_.make(std::move(owned)); }, hook_.get(),
      options_.offload_activations ? &host_ : nullptr);
}

Decision TrainRun::decide() {
  Decision decision;
  const bool late = options_.seconds > 0 && seconds_since(began_) > options_.seconds;
  decision.stop = stop_asked != 0 || late ? 1 : 0;
  decision.written = checkpoints_ && checkpoints_->written() ? 1 : 0;
  value_of(mesh_->world.all_reduce<std::int32_t>({&decision.stop, 2}));
  return decision;
}

void TrainRun::train() {
  Trainer& trainer = *trainer_;
  const auto ranks = static_cast<std::int32_t>(mesh_->shape().ranks());
  for (bool going = trainer.steps() < options_.steps; going;) {
    const StepResult step = trainer.step();
    const Decision decision = decide();
    going = trainer.steps() < options_.steps && decision.stop == 0;

    std::string note;
    if (decision.written == ranks) note = checkpoints_->commit();
    if (checkpoints_ && going && options_.save_every > 0 &&
        trainer.steps() % options_.save_every == 0) {
      trainer.settle();
      // Of two notes at most one is there.
      note += checkpoints_->save(trainer);
    }
    std::optional<StepResult> validation;
    if (!going) trainer.settle();
    if (!going || (options_.validate_every > 0 && trainer.steps() % options_.validate_every == 0))
      validation = trainer.validate(options_.validation_batches);
    monitor_->after(step, validation ? &*validation : nullptr, note);
  }
}

void TrainRun::finish() {
  const std::size_t steps = trainer_->steps();
  const bool trained = steps > first_step_;
  if (checkpoints_ && trained) {
    monitor_->say(checkpoints_->save(*trainer_));
    monitor_->say(checkpoints_->finish());
  }
  if (!options_.exported.empty()) export_weights(*trainer_, *mesh_, whole_, options_.exported);
  if (!trained) {
    monitor_->say(fmt::format("nothing to train: step {} of {} is done", steps, options_.steps));
    return;
  }
  if (steps < options_.steps) {
    monitor_->say(fmt::format("stopped after step {} of {}{}", steps, options_.steps,
                              checkpoints_ ? "; the same command goes on from there" : ""));
  }
  monitor_->finish();
}

}  // namespace

void print_estimate(const TrainOptions& options, std::size_t ranks) {
  const auto source = make_source(options);
  const MeshShape mesh = complete(options.mesh, ranks);
  if (mesh.pipeline > 1 || mesh.tensor > 1)
    throw Failure("--estimate counts data-parallel ranks only; leave out --tp and --pp",
                  Failure::kBadUsage);
  HostMemory host;
  fmt::print("{}", estimate_table(options.trainer, make_units(options, *source, nullptr),
                                  {source->shape().sequences, source->shape().tokens, {}, {}},
                                  {.checkpoint = options.trainer.checkpoint,
                                   .host = options.offload_activations ? &host : nullptr},
                                  mesh.data, options.offload != "none"));
}

void run_training(const TrainOptions& options, collectives::Communicator world) {
  auto run = std::make_unique<TrainRun>(options);
  try {
    run->start(std::move(world));
    run->train();
    run->finish();
  } catch (...) {
    static_cast<void>(run.release());  // Its destructors may wait for other ranks.
    throw;
  }
}

}  // namespace training
