// SPDX-License-Identifier: Apache-2.0
// The model of overlap: examples worked by hand, its limits, and its fit to measurements.
#include "measure/overlap_model.hpp"

#include <gtest/gtest.h>

#include <random>

#include "test_seed.hpp"

namespace training {
namespace overlap_model_test {

const Cost kSum{1, 2};  // 1 s and 2 s for each byte

TEST(OverlapModel, SumsFollowOneAnotherAndWaitForTheirGradients) {
  const std::vector<ReadyBucket> buckets = {{2, 1}, {3, 2}, {20, 1}};
  // 2 + 3; then 5 + 5, as the sum before lasts; then 20 + 3, as the gradient is late.
  EXPECT_EQ(bucket_ends(buckets, kSum), (std::vector<double>{5, 10, 23}));
}

TEST(OverlapModel, AStepExposesWhatOutlastsTheBackwardPass) {
  const std::vector<ReadyBucket> buckets = {{2, 1}, {3, 2}, {20, 1}};
  const StepTime late = overlapped_step({10, 21, 4}, buckets, kSum);
  EXPECT_EQ(late.exposed, 2);
  EXPECT_EQ(late.step, 10 + 23 + 4);
  const StepTime hidden = overlapped_step({10, 30, 4}, buckets, kSum);
  EXPECT_EQ(hidden.exposed, 0);
  EXPECT_EQ(hidden.step, 10 + 30 + 4);
  const StepTime waiting = step_without_overlap({10, 30, 4}, buckets, kSum);
  EXPECT_EQ(waiting.exposed, 3 + 5 + 3);
  EXPECT_EQ(waiting.step, 10 + 30 + 11 + 4);
}

TEST(OverlapModel, OverlapNeverCostsAndHidesAtMostTheBackwardPass) {
  std::mt19937_64 random(coll::test::test_seed());
  std::uniform_real_distribution<double> draw(0, 1);
  for (int i = 0; i < 200; ++i) {
    const ComputeTimes compute{draw(random), 10 * draw(random), draw(random)};
    std::vector<ReadyBucket> buckets(1 + random() % 20);
    for (std::size_t j = 0; j < buckets.size(); ++j) {
      buckets[j] = {
          compute.backward * static_cast<double>(j + 1) / static_cast<double>(buckets.size()),
          draw(random)};
    }
    const Cost sum{draw(random) / 5, draw(random)};
    const StepTime with = overlapped_step(compute, buckets, sum);
    const StepTime without = step_without_overlap(compute, buckets, sum);
    EXPECT_LE(with.step, without.step + 1e-9);
    EXPECT_GE(with.step, without.step - compute.backward - 1e-9);
    EXPECT_GE(with.exposed, sum.of(buckets.back().bytes) - 1e-9) << "the last bucket has no cover";
  }
}

TEST(OverlapModel, OneRankCommunicatesNothing) {
  EXPECT_EQ(overlapped_step({1, 2, 3}, {}, kSum).step, 6);
  EXPECT_EQ(step_without_overlap({1, 2, 3}, {}, kSum).exposed, 0);
}

TEST(OverlapModel, TheFitFindsTheCostOfExactMeasurements) {
  const Cost truth{3e-5, 2e-10};
  std::vector<Sample> samples;
  for (const double bytes : {1e4, 1e5, 1e6, 1e7}) samples.push_back({bytes, truth.of(bytes)});
  const Cost cost = fit_cost(samples);
  EXPECT_NEAR(cost.alpha, truth.alpha, 1e-12);
  EXPECT_NEAR(cost.beta, truth.beta, 1e-17);
}

TEST(OverlapModel, TheFitIsNeverNegative) {
  // A line through these would begin below 0, or fall.
  const std::vector<Sample> steep = {{1, 1}, {2, 4}, {3, 9}}, falling = {{1, 3}, {2, 2}, {3, 1}};
  EXPECT_EQ(fit_cost(steep).alpha, 0);
  EXPECT_GT(fit_cost(steep).beta, 1);
  EXPECT_EQ(fit_cost(falling).beta, 0);
  EXPECT_GT(fit_cost(falling).alpha, 1);
  const std::vector<Sample> one = {{5, 2}};
  EXPECT_EQ(fit_cost(one).of(5), 2);
}

TEST(OverlapModel, Zero3WithoutPrefetchWaitsForEachGather) {
  // Two units: a forward pass 2, a backward pass 4, a gather 3, a reduce-scatter 1.
  const std::vector<UnitTimes> units(2, {2, 4, 3, 1});
  // f0: 3 + 2 = 5; f1: 5 + 3 + 2 = 10; b1: 10 + 3 + 4 = 17, scattered at 18;
  // b0: gathered behind that from 18 to 21, computed at 25, scattered at 26.
  const StepTime time = zero3_step(units, 0);
  EXPECT_EQ(time.step, 26);
  EXPECT_EQ(time.exposed, 26 - 12);
}

TEST(OverlapModel, Zero3WithPrefetchHidesGathersBehindPasses) {
  const std::vector<UnitTimes> units(2, {2, 4, 3, 1});
  // Gathers end at 3, 6 (both issued at 0), then 9 (issued when f1 begins to be used, at 5), and 12
  // (at 8); f0 ends at 5, f1 at 8, b1 at 9 + 4 = 13, scattered at 14; b0 at 17, scattered at 18.
  EXPECT_EQ(zero3_step(units, 1).step, 18);
  for (std::size_t prefetch = 0; prefetch < 4; ++prefetch)
    EXPECT_LE(zero3_step(units, prefetch + 1).step, zero3_step(units, prefetch).step);
  const std::vector<UnitTimes> fast(5, {2, 4, 0, 0});
  EXPECT_EQ(zero3_step(fast, 1).exposed, 0);
}

}  // namespace overlap_model_test
}  // namespace training
