// SPDX-License-Identifier: Apache-2.0
// The fit finds the model by which times were made, and says when it found nothing better.
#include "coll_tune/coll_tune_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "test_seed.hpp"

namespace perf {
namespace {

using coll::Collective;
using coll::CostConstants;

coll::World world_of(coll::Rank ranks, double per_core = 1) {
  coll::World world;
  world.layout = coll::Layout::flat(ranks);
  world.view.ranks_per_core = per_core;
  return world;
}

/// A table of what calls take on a machine of these constants, by a few algorithms.
coll::TuningTable measured_on(const CostConstants& machine, std::vector<coll::World> worlds,
                              double noise = 0) {
  std::mt19937_64 random(coll::test::test_seed());
  std::uniform_real_distribution<double> disturbed(1 - noise, 1 + noise);
  coll::TuningTable table;
  for (const coll::World& world : worlds) {
    const auto scope = coll::scope_of(world.layout, world.shared_memory, world.view.ranks_per_core);
    for (const Collective collective :
         {Collective::all_reduce, Collective::broadcast, Collective::all_to_all}) {
      for (std::uint64_t bytes = 8; bytes <= 16 << 20; bytes *= 8) {
        const coll::CollectiveSpec spec{collective, world.layout.ranks(), 0};
        coll::TuningPoint point{collective, bytes, scope, "2026", {}};
        for (const coll::Candidate& each : coll::candidates(world, spec, coll::size_class(bytes))) {
          coll::World forced = world;
          forced.algorithm = each.plan.algorithm->name;
          const coll::Plan plan = *make_plan(forced, {spec, coll::size_class(bytes)});
          const double us =
              predict(world, machine, plan, static_cast<double>(bytes)).each_us * disturbed(random);
          point.timings.push_back({{forced.algorithm}, us, 0});
        }
        table.points.push_back(point);
      }
    }
  }
  return table;
}

CostConstants other_machine() {
  CostConstants costs = coll::default_cost_model()->constants;
  costs.memory.alpha_us *= 0.4;
  costs.memory.step_us *= 0.6;
  costs.memory.send_us_per_byte *= 0.3;
  costs.memory.receive_us_per_byte *= 0.3;
  costs.memory.slowdown *= 2;
  costs.memory.fetch_us_per_byte *= 2;
  costs.copy.us_per_byte *= 0.5;
  return costs;
}

TEST(TuneFit, FindsTheModelThatMadeTheTimes) {
  const std::vector<coll::World> worlds{world_of(2), world_of(4)};
  const auto times = timed_plans(measured_on(other_machine(), worlds), worlds[0]);
  ASSERT_GT(times.size(), 60U);
  const CostConstants start = coll::default_cost_model()->constants;
  const ModelFit found = fit(start, times);
  EXPECT_GT(found.before.error, 1.4);
  EXPECT_TRUE(found.better());
  EXPECT_LT(found.after.error, 1.05);
  EXPECT_GT(found.after.within, 0.9);
  const auto near = [](double found_value, double true_value, double times_off) {
    EXPECT_LT(std::abs(std::log(found_value / true_value)), std::log(times_off)) << true_value;
  };
  // Of what times hardly tell apart, such as send and receive, only predictions come out right.
  const CostConstants truth = other_machine();
  near(found.costs.memory.fetch_us_per_byte, truth.memory.fetch_us_per_byte, 1.3);
  // What these times say nothing of stays.
  EXPECT_EQ(found.costs.network, start.network);
  EXPECT_EQ(found.costs.kernel, start.kernel);
  EXPECT_EQ(found.costs.cut, start.cut);
  EXPECT_EQ(found.costs.gpu, start.gpu);
}

TEST(TuneFit, IsNoBetterWhereTheModelIsRight) {
  const coll::World world = world_of(2);
  const auto times =
      timed_plans(measured_on(coll::default_cost_model()->constants, {world}), world);
  EXPECT_EQ(expected_quality(times).within, 1);
  EXPECT_FALSE(fit(coll::default_cost_model()->constants, times).better());
  EXPECT_FALSE(fit(coll::default_cost_model()->constants, {}).better()) << "no times at all";
}

/// Half of the times decide, the other half is predicted as well.
TEST(TuneFit, HoldsForTimesThatItHasNotSeen) {
  const coll::World world = world_of(2);
  const auto all = timed_plans(measured_on(other_machine(), {world}, 0.1), world);
  std::vector<TimedPlan> seen, unseen;
  for (std::size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? seen : unseen).push_back(all[i]);
  const ModelFit found = fit(coll::default_cost_model()->constants, seen);
  EXPECT_LT(quality_of(found.costs, unseen).error, 1.15);
  EXPECT_GT(expected_quality(unseen).error, 1.4);
}

TEST(TuneFit, TakesTimesOfWorldsOnTheSameMachineOnly) {
  const CostConstants costs = coll::default_cost_model()->constants;
  coll::TuningTable table = measured_on(costs, {world_of(2)});
  EXPECT_FALSE(timed_plans(table, world_of(4, 2)).empty());
  for (coll::TuningPoint& point : table.points) point.scope.transport = "tcp";
  EXPECT_TRUE(timed_plans(table, world_of(2)).empty());
  for (coll::TuningPoint& point : table.points) point.scope = {4, "2x2", "shm", 1};
  EXPECT_TRUE(timed_plans(table, world_of(2)).empty());
}

/// A fit begins with the model as it is here, and keeps for later what was measured beside it.
TEST(TuneFit, BelongsToWhatWasMeasuredBesideIt) {
  const CostConstants usual = coll::default_cost_model()->constants;
  coll::ProbeCost measured;
  measured.line_us = usual.probe.line_us / 2;
  const CostConstants here = on_this_machine(usual, measured);
  EXPECT_EQ(here.memory.alpha_us, usual.memory.alpha_us / 2);
  EXPECT_EQ(here.probe.line_us, measured.line_us);
  EXPECT_EQ(here.probe.send_us, usual.probe.send_us) << "not measured";
  EXPECT_EQ(measured_costs(here, measured, 1), here) << "nothing is scaled twice";
  const ModelFit made{.costs = here, .before = {}, .after = {}, .times = 7};
  const coll::CostModel model =
      fitted_model(made, *coll::default_cost_model(), world_of(2), "cpu x", "2026-11-24");
  EXPECT_EQ(model.machine, "cpu x");
  EXPECT_EQ(model.date, "2026-11-24");
  EXPECT_EQ(model.constants, here);
  EXPECT_NE(model.measured[0].find("7 times over memory"), std::string::npos);
  EXPECT_EQ(model.measured[1], coll::default_cost_model()->measured[1]) << "of another path";
}

}  // namespace
}  // namespace perf
