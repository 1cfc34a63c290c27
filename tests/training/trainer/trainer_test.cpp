// SPDX-License-Identifier: Apache-2.0
// Training gives the same bits however it is spread over ranks, and moves and keeps what the
// papers' formulas say.
#include "trainer/trainer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>

#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "estimate/estimate.hpp"
#include "model/gpt.hpp"
#include "offload/delayed_optimizer.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "parallel/tensor_parallel.hpp"

namespace training {
namespace trainer_test {

const GptShape kModel{16, 8, 32, 2, 2};

struct Run {
  std::size_t ranks = 1, steps = 5;
  TrainerOptions options = {};
  MeshShape mesh = {};
};

/// What a run leaves.
struct Trace {
  std::vector<double> losses, norms;
  double validation = 0;
  States states;
  std::vector<std::uint64_t> sent;  ///< bytes of each rank in all steps but the first
  std::vector<std::map<Use, std::size_t>> bytes, peaks;
  std::size_t elements = 0;  ///< of the layout
};

std::unique_ptr<Optimizer> make_optimizer(Owned owned, const TrainerOptions& options, Arena& arena,
                                          DeviceLink& link) {
  const auto in_memory = [&](Owned of) {
    return std::make_unique<MemoryOptimizer>(std::move(of), arena);
  };
  if (options.delay == 0) return in_memory(std::move(owned));
  return std::make_unique<DelayedOptimizer>(owned, arena, link, in_memory);
}

Trace run(Run how) {
  Trace trace;
  trace.sent.resize(how.ranks);
  trace.bytes.resize(how.ranks);
  trace.peaks.resize(how.ranks);
  if (how.mesh.ranks() == 1) how.mesh.data = how.ranks;
  how.options.rate = {.most = 1e-2F, .warm_up = 2};
  std::mutex mutex;
  on_ranks(how.ranks, [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), how.mesh, true);
    Arena arena;
    DeviceLink link;
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    TensorPartners<float> partners(mesh.tensor);
    Trainer trainer(
        how.options, gpt_units<float>(kModel, mesh.shape().tensor > 1 ? &partners : nullptr),
        source, mesh, arena,
        [&](Owned owned) { return make_optimizer(std::move(owned), how.options, arena, link); });
    std::vector<double> losses, norms;
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < how.steps; ++i) {
      const StepResult result = trainer.step();
      losses.push_back(result.loss);
      norms.push_back(result.norm);
      if (i == 0) {
        trainer.settle();
        before = (*mesh.data.stats()).bytes_sent;
        arena.forget_peaks();
      }
    }
    trainer.settle();
    const std::uint64_t sent = (*mesh.data.stats()).bytes_sent - before;
    const double validation = trainer.validate(4).loss;
    const std::scoped_lock lock(mutex);
    const std::size_t rank = mesh.rank();
    trace.sent[rank] = sent;
    for (std::size_t i = 0; i < kUses; ++i) {
      const auto use = static_cast<Use>(i);
      trace.bytes[rank][use] = arena.bytes(use);
      trace.peaks[rank][use] = arena.peak(use);
    }
    trace.elements = trainer.layout().size();
    if (rank == 0) {
      trace.losses = losses;
      trace.norms = norms;
      trace.validation = validation;
    }
    EXPECT_EQ(losses.size(), how.steps);
    add_states(trainer, trace.states);
  });
  return trace;
}

void expect_same(const Trace& one, const Trace& other) {
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.norms, other.norms);
  EXPECT_EQ(one.validation, other.validation);
  expect_same_states(one.states, other.states);
}

std::size_t activation_bytes(std::size_t units_of_segment) {
  return sizeof(float) * activation_elements(gpt_units<float>(kModel),
                                             {2, kModel.positions, {}, {}},
                                             {.checkpoint = units_of_segment});
}

TrainerOptions with_zero(int stage) {
  TrainerOptions options;
  options.zero = stage;
  options.buckets = {4096, 16384};
  return options;
}

class SameBits : public testing::TestWithParam<std::tuple<int, std::size_t, Format>> {};

TEST_P(SameBits, AsOneRank) {
  const auto [stage, ranks, format] = GetParam();
  TrainerOptions options = with_zero(0);
  options.weights = options.gradients = format;
  const Trace alone = run({.options = options});
  options.zero = stage;
  expect_same(alone, run({.ranks = ranks, .options = options}));
}

INSTANTIATE_TEST_SUITE_P(Stages, SameBits,
                         testing::Combine(testing::Values(0, 1, 2, 3),
                                          testing::Values<std::size_t>(1, 2, 4, 8),
                                          testing::Values(Format::f32, Format::bf16)),
                         [](const auto& of) {
                           return "zero" + std::to_string(std::get<0>(of.param)) + "_" +
                                  std::to_string(std::get<1>(of.param)) + "_ranks_" +
                                  name_of(std::get<2>(of.param));
                         });

TEST(Training, ItLearns) {
  const Trace trace = run({.ranks = 2, .steps = 60, .options = with_zero(0)});
  EXPECT_NEAR(trace.losses.front(), std::log(16.0), 0.1);
  EXPECT_LT(trace.losses.back(), 1.5);
  EXPECT_LT(trace.validation, 1.5);
}

TEST(Training, SameBitsWithDelayedUpdates) {
  TrainerOptions options = with_zero(0);
  const Trace prompt = run({.options = options});
  options.delay = 3;
  const Trace late = run({.options = options});
  EXPECT_TRUE(std::equal(prompt.losses.begin(), prompt.losses.begin() + 3, late.losses.begin()));
  EXPECT_NE(prompt.losses[3], late.losses[3]) << "the update of step 3 is a step late";
  for (const std::size_t ranks : {2U, 4U}) {
    for (options.zero = 0; options.zero <= 3; ++options.zero) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << options.zero);
      expect_same(late, run({.ranks = ranks, .options = options}));
    }
  }
}

TEST(Training, ItLearnsAsMuchWithDelayedUpdates) {
  TrainerOptions options = with_zero(1);
  const double prompt = run({.ranks = 2, .steps = 300, .options = options}).validation;
  options.delay = 100;
  const double late = run({.ranks = 2, .steps = 300, .options = options}).validation;
  EXPECT_LT(late, 1.02 * prompt);
}

TEST(Training, AGradientThatStaysNotFiniteIsAFailure) {
  TrainerOptions options = with_zero(1);
  options.decay = 1e38F;  // the first step spoils the weights
  EXPECT_THROW(run({.ranks = 2, .steps = 45, .options = options}), Failure);
}

TEST(Training, SameBitsWithCheckpointedActivations) {
  const Trace all = run({.ranks = 2, .options = with_zero(0)});
  EXPECT_EQ(all.bytes[0].at(Use::activations), activation_bytes(0));
  for (const int stage : {0, 3}) {
    for (const std::size_t units : {1U, 2U, 3U, 9U}) {
      TrainerOptions options = with_zero(stage);
      options.checkpoint = units;
      const Trace some = run({.ranks = 2, .options = options});
      expect_same(all, some);
      EXPECT_EQ(some.bytes[0].at(Use::activations), activation_bytes(units)) << units;
    }
  }
  EXPECT_LT(activation_bytes(1), activation_bytes(0));
}

TEST(Training, SameBitsInAPipeline) {
  const Trace alone = run({.options = with_zero(0)});
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_forward_one_backward}) {
    for (const MeshShape& mesh : {MeshShape{1, 1, 2}, MeshShape{2, 1, 2}, MeshShape{1, 1, 4}}) {
      for (const int stage : {0, 1, 3}) {
        TrainerOptions options = with_zero(stage);
        options.pipeline = kind;
        SCOPED_TRACE(testing::Message() << "stage " << stage << ", " << mesh.data << " x "
                                        << mesh.pipeline << ", kind " << static_cast<int>(kind));
        expect_same(alone, run({.ranks = mesh.ranks(), .options = options, .mesh = mesh}));
      }
    }
  }
}

/// Sums over partners round in another order: close, not equal.
TEST(Training, TensorParallelRanksTrainAlike) {
  const Trace alone = run({.options = with_zero(0)});
  for (const MeshShape& mesh : {MeshShape{1, 2, 1}, MeshShape{2, 2, 1}, MeshShape{2, 2, 2}}) {
    for (const int stage : {0, 1, 3}) {
      const Trace split = run({.ranks = mesh.ranks(), .options = with_zero(stage), .mesh = mesh});
      for (std::size_t i = 0; i < alone.losses.size(); ++i) {
        EXPECT_NEAR(alone.losses[i], split.losses[i], 1e-4);
        EXPECT_NEAR(alone.norms[i], split.norms[i], 1e-3);
      }
      for (const auto& [name, values] : alone.states) {
        ASSERT_EQ(values.size(), split.states.at(name).size()) << name;
        if (name[0] != '0') continue;  // moments of gradients near 0 differ
        for (std::size_t i = 0; i < values.size(); ++i)
          EXPECT_NEAR(values[i], split.states.at(name)[i], 2e-2) << name;
      }
    }
  }
}

TEST(Training, SameBitsWhereUnitsAreLeftOut) {
  TrainerOptions options = with_zero(0);
  options.drop = 0.6;
  options.leaves = 2;  // often no micro-batch uses a unit
  const Trace alone = run({.steps = 8, .options = options});
  const Trace all = run({.steps = 8, .options = with_zero(0)});
  EXPECT_NE(alone.losses, all.losses);
  for (const int stage : {0, 1, 2, 3}) {
    options.zero = stage;
    expect_same(alone, run({.ranks = 2, .steps = 8, .options = options}));
  }
}

TEST(Training, BalancedRanksTrainOnTheSameMicroBatches) {
  TrainerOptions options = with_zero(0);
  options.leaves = 7;
  const Trace alone = run({.options = options});
  options.balance = true;
  for (const int stage : {0, 1, 2, 3}) {
    options.zero = stage;
    const Trace balanced = run({.ranks = 3, .options = options});
    EXPECT_NEAR(alone.losses.back(), balanced.losses.back(), 1e-3);
    EXPECT_EQ(alone.losses.front(), balanced.losses.front()) << "the same rows";
  }
}

TEST(Training, RanksWithoutDataTakePart) {
  TrainerOptions options = with_zero(0);
  options.leaves = 2;
  const Trace alone = run({.options = options});
  for (const int stage : {0, 1, 2, 3}) {
    options.zero = stage;
    expect_same(alone, run({.ranks = 4, .options = options}));
  }
}

TEST(Training, RanksSendWhatTheFormulasSay) {
  for (const std::size_t ranks : {2U, 3U, 4U}) {
    for (const Format format : {Format::f32, Format::bf16}) {
      for (const std::size_t rounds : {1U, 3U}) {
        for (const int stage : {0, 1, 2, 3}) {
          TrainerOptions options = with_zero(stage);
          options.leaves = ranks * rounds;
          options.weights = options.gradients = format;
          const Trace trace = run({.ranks = ranks, .options = options});
          // In units of P (n - 1) / n elements: ZeRO's paper, section 7.
          const std::size_t parts[] = {2, 2, rounds + 1, 3 * rounds};
          const std::uint64_t expected = parts[stage] * trace.elements / ranks * (ranks - 1) *
                                         bytes_of(format) * 4 /* steps */;
          std::uint64_t all = 0;
          for (const std::uint64_t sent : trace.sent) all += sent;
          if (stage == 0 && ranks == 3) {
            // The tree of three ranks is not balanced: it sends a little more.
            EXPECT_LE(all, expected * ranks * 103 / 100);
            continue;
          }
          EXPECT_EQ(all, expected * ranks)
              << "stage " << stage << ", " << ranks << " ranks, " << rounds << " rounds";
          // An all-reduce may divide its work unevenly.
          for (const std::uint64_t sent : trace.sent) {
            if (stage > 0) {
              EXPECT_EQ(sent, expected) << "stage " << stage << ", " << ranks;
            }
          }
        }
      }
    }
  }
}

/// The paper's formulas, and the estimate of everything.
TEST(Training, RanksKeepWhatTheFormulasSay) {
  for (const std::size_t ranks : {1U, 2U, 4U}) {
    for (const Format format : {Format::bf16, Format::f32}) {
      for (const int stage : {0, 1, 2, 3}) {
        TrainerOptions options = with_zero(stage);
        options.leaves = ranks;
        options.weights = options.gradients = format;
        const Trace trace = run({.ranks = ranks, .options = options});
        const std::size_t all = trace.elements, part = all / ranks;
        const Estimate expected =
            estimate(options, gpt_units<float>(kModel), {2, kModel.positions, {}, {}}, {}, ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const auto& bytes = trace.bytes[rank];
          if (format == Format::bf16) {
            EXPECT_EQ(bytes.at(Use::parameters), 2 * (stage == 3 ? part : all));
            EXPECT_EQ(bytes.at(Use::gradients), 2 * (stage >= 2 ? part : all));
            EXPECT_EQ(bytes.at(Use::optimizer), 12 * (stage >= 1 ? part : all));
          }
          EXPECT_EQ(bytes, trace.peaks[rank]) << "nothing is allocated for a while";
          for (const auto& [use, size] : bytes) EXPECT_EQ(size, expected.of(use)) << name_of(use);
        }
        EXPECT_EQ(std::accumulate(trace.sent.begin(), trace.sent.end(), std::uint64_t{0}),
                  4 * expected.sent_bytes * ranks);
      }
    }
  }
}

TEST(Training, TheEstimateCountsMicroBatches) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const std::size_t leaves : {2U, 6U, 8U}) {
      TrainerOptions options = with_zero(stage);
      options.leaves = leaves;
      options.checkpoint = leaves == 6 ? 2 : 0;
      const Trace trace = run({.ranks = 2, .options = options});
      const Estimate expected =
          estimate(options, gpt_units<float>(kModel), {2, kModel.positions, {}, {}},
                   {.checkpoint = options.checkpoint}, 2);
      EXPECT_EQ(trace.sent[0], 4 * expected.sent_bytes) << stage << " " << leaves;
      for (const auto& [use, size] : trace.bytes[0])
        EXPECT_EQ(size, expected.of(use)) << name_of(use) << stage;
    }
  }
}

/// ZeRO's paper, table 1 and figure 1: 7.5 B parameters on 64 ranks.
TEST(Training, TheEstimateGivesThePapersTable) {
  struct OneUnit final : Unit<float> {
    OneUnit() { parameters_ = {{"w", 75'000, 100'000, 0, 0, false}}; }
    std::size_t width() const override { return 0; }
    std::size_t saved_size(const Batch&) const override { return 0; }
    std::size_t scratch_size(const Batch&) const override { return 0; }
    double operations(const Batch&) const override { return 0; }
    void forward(const Batch&, const Memory<float>&, const float*, float*,
                 Outcome&) const override {}
    void backward(const Batch&, const Memory<float>&, const float*, float*, float*, float,
                  const Ready&) const override {}
  };
  Units<float> units;
  units.push_back(std::make_unique<OneUnit>());
  const double gigabytes[] = {120, 31.4, 16.6, 1.88};
  for (const int stage : {0, 1, 2, 3}) {
    TrainerOptions options = with_zero(stage);
    options.weights = options.gradients = Format::bf16;
    options.leaves = 64;
    const Estimate e = estimate(options, units, {1, 1, {}, {}}, {}, 64);
    EXPECT_NEAR(1e-9 * static_cast<double>(e.of(Use::parameters) + e.of(Use::gradients) +
                                           e.of(Use::optimizer)),
                gigabytes[stage], 0.05);
  }
}

}  // namespace trainer_test
}  // namespace training
