// SPDX-License-Identifier: Apache-2.0
// A table keeps what was faster twice, and nothing else.
#include "coll_tune/coll_tune_duel.hpp"

#include <gtest/gtest.h>

#include "planner/planner.hpp"

namespace perf {
namespace {

using coll::Collective;

Duel duel_of(std::vector<std::vector<double>> ratios) {
  return {Collective::all_reduce, 1024, {"ring"}, {"chain"}, std::move(ratios), {10, 11, 10}};
}

TEST(TuneDuel, IsWonByMoreThanTheNoise) {
  EXPECT_TRUE(duel_of({{0.8, 0.8, 0.8}, {0.9, 0.9, 0.9}, {0.8, 0.9, 0.8}}).won());
  EXPECT_FALSE(duel_of({{1.1, 1.1, 1.1}, {1.1, 1.1, 1.1}}).won());
  EXPECT_FALSE(duel_of({{0.995, 0.995, 0.995}}).won()) << "what is so near is no difference";
  EXPECT_FALSE(duel_of({{0.5, 0.95, 1.4, 0.6, 1.3}}).won()) << "rounds that say nothing";
}

/// Cores that move: a gain in one place is none if it is a loss in the other.
TEST(TuneDuel, IsWonInNoHeatIfItIsLostInOne) {
  const std::vector<double> far{0.5, 0.5, 0.5, 0.5}, near{1.2, 1.2, 1.2};
  EXPECT_TRUE(duel_of({far, far, {1.005, 1.005, 1.005}}).won());
  EXPECT_FALSE(duel_of({far, far, near}).won());
  EXPECT_FALSE(duel_of({near, far, far}).won());
}

TEST(TuneDuel, WhatIsTakenBackLeavesWhatWasChosenBefore) {
  const coll::World world = [] {
    coll::World made;
    made.layout = coll::Layout::flat(4);
    return made;
  }();
  const coll::CollectiveSpec spec{Collective::all_reduce, 4, 0};
  const auto size = coll::size_class(1024);
  const coll::Plan by_model = *make_plan(world, {spec, size});
  const std::string model(by_model.algorithm->name), other = model == "chain" ? "ring" : "chain";
  for (const bool timed : {true, false}) {
    coll::World tuned = world;
    coll::TuningPoint point{Collective::all_reduce, 1024, {}, "2026", {}};
    point.timings = {{{other}, 5, 0.1}, {{"two_shot", {2, 65536}}, 6, 0.1}, {{"binomial"}, 20, 1}};
    if (timed) point.timings.push_back({{model}, 12, 0.1});
    tuned.tuning = {point};
    std::optional<Duel> duel = line_up_duel(world, tuned, Collective::all_reduce, 1024);
    ASSERT_TRUE(duel);
    EXPECT_EQ(duel->before.text(), model);
    EXPECT_EQ(duel->after.text(), other);
    duel->before_us = {12, 12, 13};
    take_back(*duel, point);
    EXPECT_EQ(point.timings.front().recipe.text(), model);
    EXPECT_EQ(point.timings.front().us, 12);
    EXPECT_GT(point.timings.front().noise_us, 0);
    EXPECT_EQ(point.timings.size(), 2U) << "what is slower stays";
    tuned.tuning = {point};
    EXPECT_FALSE(line_up_duel(world, tuned, Collective::all_reduce, 1024));
  }
}

TEST(TuneDuel, AModelGainsIfCallsAreFasterAsAWhole) {
  EXPECT_TRUE(is_gain({})) << "it changes nothing here";
  EXPECT_TRUE(is_gain({duel_of({{0.7, 0.7}}), duel_of({{1.05, 1.05}})}));
  EXPECT_FALSE(is_gain({duel_of({{0.97, 0.97}}), duel_of({{1.05, 1.05}})}));
  EXPECT_FALSE(is_gain({duel_of({{0.5, 0.5}}), duel_of({{0.5, 0.5}}), duel_of({{1.3, 1.3}})}))
      << "not at the cost of one";
}

}  // namespace
}  // namespace perf
