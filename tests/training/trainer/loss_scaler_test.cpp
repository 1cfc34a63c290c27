// SPDX-License-Identifier: Apache-2.0
// Loss scaling: the factor falls and rises, and a gradient that is not finite on one rank leaves
// the step out on all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "../overflowing_unit.hpp"
#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "layout/initial_weights.hpp"
#include "model/gpt.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "trainer/trainer.hpp"

namespace training {
namespace loss_scaler_test {

TEST(LossScaler, HalvesAtAnOverflowAndDoublesAfterPatience) {
  LossScaler scaler(1024, 3);
  scaler.update(true);
  EXPECT_EQ(scaler.factor(), 512);
  scaler.update(false);
  scaler.update(false);
  EXPECT_EQ(scaler.factor(), 512);
  scaler.update(false);
  EXPECT_EQ(scaler.factor(), 1024);
  scaler.update(false);
  scaler.update(false);
  scaler.update(true);  // patience begins anew
  scaler.update(false);
  scaler.update(false);
  EXPECT_EQ(scaler.factor(), 512);
  scaler.update(false);
  EXPECT_EQ(scaler.factor(), 1024);
}

TEST(LossScaler, StaysWithinItsLimits) {
  LossScaler low(2, 1), high(LossScaler::kMost / 2, 1);
  for (int i = 0; i < 5; ++i) {
    low.update(true);
    high.update(false);
  }
  EXPECT_EQ(low.factor(), LossScaler::kLeast);
  EXPECT_EQ(high.factor(), LossScaler::kMost);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler one(64, 3), other(1, 3);
  one.update(false);
  one.update(false);
  other.restore(one.state());
  EXPECT_EQ(other.factor(), 64);
  other.update(false);
  EXPECT_EQ(other.factor(), 128);
}

const GptShape kModel{16, 8, 32, 2, 2};

class Overflow : public testing::TestWithParam<int> {};

TEST_P(Overflow, OnOneRankLeavesTheStepOutOnAll) {
  constexpr std::size_t kRanks = 2;
  on_ranks(kRanks, [](collectives::Communicator world) {
    const bool strikes = world.rank() == 1;
    Mesh mesh(std::move(world), {.data = kRanks}, true);
    Arena arena;
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    TrainerOptions options;
    options.zero = GetParam();
    options.leaves = kRanks;
    options.buckets = {4096, 16384};
    options.gradients = Format::f16;
    options.rate = {.most = 1e-2F};
    std::map<std::string, OverflowingUnit::When> when;
    // In the third step: a rank computes one micro-batch in each.
    auto units = gpt_units<float>(kModel);
    if (strikes) when[units[1]->name()].pass = 2;
    Trainer trainer(
        options, wrap<OverflowingUnit>(std::move(units), when), source, mesh, arena,
        [&](Owned owned) { return std::make_unique<MemoryOptimizer>(std::move(owned), arena); });
    const auto states = [&] {
      std::vector<float> all;
      for_each_state(trainer, [&](const StatePart& part) {
        all.insert(all.end(), part.values.begin(), part.values.end());
      });
      return all;
    };
    std::vector<float> before;
    for (std::size_t step = 0; step < 5; ++step) {
      before = states();
      const StepResult result = trainer.step();
      EXPECT_EQ(result.skipped, step == 2) << step;
      EXPECT_EQ(result.loss_scale, step <= 2 ? 65536 : 32768) << step;
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_EQ(states() == before, step == 2) << "weights and moments stay in a step left out";
    }
    EXPECT_EQ(trainer.steps(), 5U);
  });
}

INSTANTIATE_TEST_SUITE_P(Zero, Overflow, testing::Values(0, 1, 2, 3));

TEST(LossScaler, FallsUntilGradientsFitAndTrainingGoesOn) {
  on_ranks(2, [](collectives::Communicator world) {
    Mesh mesh(std::move(world), {.data = 2}, true);
    Arena arena;
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    TrainerOptions options;
    options.leaves = 2;
    options.gradients = Format::f16;
    options.rate = {.most = 1e-2F};
    Trainer trainer(options, gpt_units<float>(kModel), source, mesh, arena, [&](Owned owned) {
      return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
    });
    // The same first weights, a factor that is too large.
    trainer.load(
        [&](const Trainer::Part& part) {
          if (part.state == State::weights)
            initial_values(part.parameter, options.seed, part.first, part.values);
          else
            std::ranges::fill(part.values, 0.0F);
        },
        0, {LossScaler::kMost, 0});
    std::size_t skipped = 0;
    float scale = LossScaler::kMost;
    double loss = 0;
    for (int i = 0; i < 40; ++i) {
      const StepResult result = trainer.step();
      EXPECT_EQ(result.loss_scale, scale);
      if (result.skipped) {
        ++skipped;
        scale /= 2;
      }
      loss = result.loss;
    }
    EXPECT_GT(skipped, 0U) << "the test needs an overflow";
    EXPECT_LT(skipped, 20U);
    EXPECT_LT(loss, std::log(16.0) - 0.1);
  });
}

}  // namespace loss_scaler_test
}  // namespace training
