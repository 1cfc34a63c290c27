// SPDX-License-Identifier: Apache-2.0
// Buffers of data-parallel ranks: rank 0's count in each step, each validation and each checkpoint.
#include "parallel/buffers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "../pixel_source.hpp"
#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "../wrapped_unit.hpp"
#include "coll_train/export_weights.hpp"
#include "coll_train/run_checkpoints.hpp"
#include "model/mlp.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "safetensors/safetensors_reader.hpp"
#include "temporary_folder.hpp"

namespace training {
namespace buffers_test {

using Values = std::vector<float>;

const MlpShape kModel{8, {12, 6}, 10, true};
constexpr std::size_t kBufferElements = 2 * (12 + 6), kLeaves = 8;

/// Notes the first layer's buffers before each pass of training.
class NotedUnit final : public WrappedUnit {
 public:
  NotedUnit(std::unique_ptr<Unit<float>> real, std::vector<Values>& notes)
      : WrappedUnit(std::move(real)), notes_(notes) {}
  void forward(const Batch& batch, const Memory<float>& memory, const float* input, float* output,
               Outcome& outcome) const override {
    if (name() == "dense0" && memory.mode == Mode::training)
      notes_.emplace_back(memory.buffers[0], memory.buffers[0] + buffers()[0].size());
    WrappedUnit::forward(batch, memory, input, output, outcome);
  }

 private:
  std::vector<Values>& notes_;
};

/// One rank with its parts.
struct Rank {
  Rank(collectives::Communicator world, const TrainerOptions& options, MeshShape shape)
      : mesh(std::move(world), shape, true),
        trainer(options, wrap<NotedUnit>(mlp_units<float>(kModel), notes), source, mesh, arena,
                [&](Owned owned) {
                  return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
                }) {}
  [[nodiscard]] Values buffers() {
    const auto all = trainer.buffers().all();
    return {all.begin(), all.end()};
  }
  std::vector<Values> notes;
  Mesh mesh;
  Arena arena;
  PixelSource source;
  Trainer trainer;
};

/// What a run leaves, of all ranks.
struct Trace {
  std::vector<double> losses, validations;  ///< validations: by rank
  States states;
  std::vector<std::vector<Values>> ends;   ///< buffers [rank][step], at its end
  std::vector<Values> buffers;             ///< by rank, after the validation
  std::vector<std::vector<Values>> notes;  ///< [rank][pass of training]
};

TrainerOptions with_zero(int stage) {
  TrainerOptions options;
  options.leaves = kLeaves;
  options.zero = stage;
  options.buckets = {256, 1024};
  options.rate = {.most = 1e-2F};
  return options;
}

/// With a folder: goes on from the checkpoint there, and leaves one.
Trace run(std::size_t ranks, const TrainerOptions& options, std::size_t steps = 3,
          const std::string& folder = "", MeshShape shape = {}) {
  Trace trace;
  trace.validations.resize(ranks);
  trace.ends.resize(ranks);
  trace.buffers.resize(ranks);
  trace.notes.resize(ranks);
  if (shape.ranks() == 1) shape.data = ranks;
  std::vector<WholeParameter> whole;
  for (const auto& unit : mlp_units<float>(kModel)) {
    for (const ParameterInfo& info : unit->parameters()) whole.push_back(training::whole(info));
    for (const ParameterInfo& info : unit->buffers()) whole.push_back(training::whole(info));
  }
  std::mutex mutex;
  on_ranks(ranks, [&](collectives::Communicator world) {
    Rank here(std::move(world), options, shape);
    Trainer& trainer = here.trainer;
    const std::size_t rank = here.mesh.rank();
    std::optional<RunCheckpoints> checkpoints;
    if (!folder.empty()) {
      checkpoints.emplace(folder, 2, here.mesh, whole, "{}");
      checkpoints->resume(trainer);
    }
    while (trainer.steps() < steps) {
      const double loss = trainer.step().loss;
      trace.ends[rank].push_back(here.buffers());
      if (rank == 0) trace.losses.push_back(loss);
    }
    if (checkpoints) {
      checkpoints->save(trainer);
      checkpoints->finish();
      export_weights(trainer, here.mesh, whole, folder + "/weights.safetensors");
    }
    trace.validations[rank] = trainer.validate(4).loss;
    trace.buffers[rank] = here.buffers();
    trace.notes[rank] = here.notes;
    trainer.settle();
    const std::scoped_lock lock(mutex);
    add_states(trainer, trace.states);
  });
  return trace;
}

class BuffersOfStage : public testing::TestWithParam<int> {};

TEST_P(BuffersOfStage, StepsBeginWithRank0s) {
  constexpr std::size_t kRanks = 4, kPasses = kLeaves / kRanks;
  const Trace trace = run(kRanks, with_zero(GetParam()));
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    for (std::size_t step = 0; step < 3; ++step) {
      EXPECT_EQ(trace.notes[rank][step * kPasses], trace.notes[0][step * kPasses]) << step;
      EXPECT_NE(trace.ends[rank][step], trace.ends[0][step]) << "as ranks have other micro-batches";
    }
  }
  // What begins step 1 is what rank 0 had after step 0, not what it began with.
  const Values& end = trace.ends[0][0];
  EXPECT_EQ(trace.notes[0][kPasses], Values(end.begin(), end.begin() + 12));
  EXPECT_NE(trace.notes[0][kPasses], trace.notes[0][0]);
}

TEST_P(BuffersOfStage, WeightsHaveTheSameBitsOnAnyRanks) {
  const Trace alone = run(1, with_zero(0));
  for (const std::size_t ranks : {1U, 2U, 4U}) {
    const Trace trace = run(ranks, with_zero(GetParam()));
    EXPECT_EQ(trace.losses, alone.losses);
    EXPECT_EQ(trace.states, alone.states);
  }
}

TEST_P(BuffersOfStage, ValidationTakesRank0s) {
  const Trace trace = run(4, with_zero(GetParam()));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(trace.buffers[rank], trace.ends[0].back());
    EXPECT_EQ(trace.validations[rank], trace.validations[0]);
  }
  // One rank with the same weights and rank 0's buffers says the same; with rank 1's, another.
  const auto validation_with = [&](const Values& buffers) {
    double loss = 0;
    on_ranks(1, [&](collectives::Communicator world) {
      Rank here(std::move(world), with_zero(0), {});
      here.trainer.load(
          [&](const Trainer::Part& part) {
            const auto found = trace.states.find(std::to_string(static_cast<int>(part.state)) +
                                                 part.parameter.name);
            if (found == trace.states.end()) return;  // buffers
            std::copy_n(found->second.begin() + static_cast<std::ptrdiff_t>(part.first),
                        part.values.size(), part.values.begin());
          },
          3, {});
      std::ranges::copy(buffers, here.trainer.buffers().all().begin());
      loss = here.trainer.validate(4).loss;
    });
    return loss;
  };
  EXPECT_EQ(validation_with(trace.ends[0].back()), trace.validations[0]);
  EXPECT_NE(validation_with(trace.ends[1].back()), trace.validations[0]);
}

TEST_P(BuffersOfStage, ResumedRunsHaveTheSameBits) {
  const coll::test::TemporaryFolder straight, parts;
  const Trace all = run(2, with_zero(GetParam()), 5, straight.path());
  run(2, with_zero(GetParam()), 2, parts.path());
  const Trace rest = run(2, with_zero(GetParam()), 5, parts.path());
  EXPECT_EQ(rest.losses, std::vector(all.losses.begin() + 2, all.losses.end()));
  EXPECT_EQ(rest.states, all.states);
  EXPECT_EQ(rest.ends[0].back(), all.ends[0].back());
  EXPECT_EQ(rest.ends[1].back(), all.ends[1].back());
  EXPECT_EQ(rest.validations, all.validations);
}

INSTANTIATE_TEST_SUITE_P(Zero, BuffersOfStage, testing::Values(0, 1, 2, 3));

TEST(Buffers, ActivationCheckpointingUpdatesThemOnce) {
  const Trace all = run(2, with_zero(0));
  for (const std::size_t units : {1U, 2U}) {
    TrainerOptions options = with_zero(0);
    options.checkpoint = units;
    const Trace some = run(2, options);
    EXPECT_EQ(some.states, all.states);
    EXPECT_EQ(some.ends, all.ends);
  }
}

TEST(Buffers, ExportedFilesHaveRank0sOfEachStage) {
  const coll::test::TemporaryFolder folder;
  const Trace alone = run(2, with_zero(0));
  run(4, with_zero(0), 3, folder.path(), {.data = 2, .pipeline = 2});
  SafetensorsReader reader(folder.path() + "/weights.safetensors");
  Values exported(kBufferElements);
  std::size_t at = 0;
  for (const auto& unit : mlp_units<float>(kModel)) {
    for (const ParameterInfo& info : unit->buffers()) {
      reader.read(info.name, 0, std::span(exported).subspan(at, info.size()));
      at += info.size();
    }
  }
  EXPECT_EQ(exported, alone.ends[0].back());
}

TEST(Buffers, OneBroadcastOfAllForEachStepAndValidation) {
  on_ranks(2, [](collectives::Communicator world) {
    Rank here(std::move(world), with_zero(0), {.data = 2});
    std::vector<std::size_t> broadcasts;  // bytes
    here.trainer.data_traffic().observe([&](const char* name, std::size_t bytes, auto, auto) {
      if (std::string(name) == "broadcast") broadcasts.push_back(bytes);
    });
    here.trainer.step();
    here.trainer.step();
    here.trainer.validate(4);
    EXPECT_EQ(broadcasts, std::vector(3, kBufferElements * sizeof(float)));
  });
}

}  // namespace buffers_test
}  // namespace training
