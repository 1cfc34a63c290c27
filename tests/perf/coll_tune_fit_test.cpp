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
  EXPECT_EQ(expected_quality(coll::default_cost_model()->constants, times).within, 1);
  EXPECT_FALSE(fit(coll::default_cost_model()->constants, times).better());
  EXPECT_FALSE(fit(coll::default_cost_model()->constants, {}).better()) << "no times at all";
}

TEST(TuneFit, IsJudgedByTimesThatItHasNotSeen) {
  const coll::World world = world_of(2);
  const CostConstants usual = coll::default_cost_model()->constants;
  const auto other = timed_plans(measured_on(other_machine(), {world}, 0.1), world);
  const ModelFit found = fit(usual, other);
  EXPECT_TRUE(found.better());
  // 100 seeds gave 0.17 to 0.49 of the mean error before. The median of so few times varies more.
  EXPECT_LT(found.after.mean_log, 0.65 * found.before.mean_log);
  EXPECT_GT(found.before.error, 1.4);
  // Every other size is of another machine: what fits the half says nothing of the rest.
  std::vector<TimedPlan> mixed;
  for (const TimedPlan& each : other)
    if (each.fitted_first) mixed.push_back(each);
  for (const TimedPlan& each : timed_plans(measured_on(usual, {world}), world))
    if (!each.fitted_first) mixed.push_back(each);
  EXPECT_FALSE(fit(usual, mixed).better());
}

TEST(TuneFit, EndsInTime) {
  const coll::World world = world_of(2);
  const CostConstants usual = coll::default_cost_model()->constants;
  const auto times = timed_plans(measured_on(other_machine(), {world}), world);
  const ModelFit none = fit(usual, times, 0);
  EXPECT_TRUE(none.out_of_time);
  EXPECT_FALSE(none.better());
  EXPECT_EQ(none.costs, usual);
  EXPECT_FALSE(fit(usual, times, 1000).out_of_time);
}

TEST(TuneFit, IsOutdatedWhereItHasBecomeWorseThanTheDefault) {
  const coll::World world = world_of(2);
  const coll::CostModel usual = *coll::default_cost_model();
  const auto now = timed_plans(measured_on(usual.constants, {world}), world);
  const auto then = timed_plans(measured_on(other_machine(), {world}), world);
  const ModelFit made{.costs = other_machine(), .before = {}, .after = {}, .times = 50};
  const coll::CostModel model = fitted_model(made, usual, world, "cpu", "2026");
  EXPECT_TRUE(is_outdated(model, now));
  EXPECT_FALSE(is_outdated(model, then));
  EXPECT_FALSE(is_outdated(model, {now.begin(), now.begin() + 20})) << "few times prove nothing";
  coll::World sockets = world;
  sockets.view.path = &CostConstants::kernel;
  EXPECT_FALSE(is_outdated(fitted_model(made, usual, sockets, "cpu", "2026"), now))
      << "fitted over another path";
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
  coll::World world = world_of(2);
  coll::ProbeCost& measured = world.view.measured;
  measured = usual.probe;
  measured.line_us = usual.probe.line_us / 2;
  measured.chain_us = 0;
  measured.send_us = 0;
  const CostConstants here = on_this_machine(usual, world);
  EXPECT_EQ(here.memory.alpha_us, usual.memory.alpha_us / 2);
  EXPECT_EQ(here.probe.line_us, measured.line_us);
  EXPECT_EQ(here.probe.chain_us, 0) << "not measured: nobody knows what was fitted to it";
  EXPECT_EQ(here.probe.send_us, usual.probe.send_us) << "scales nothing that is fitted";
  EXPECT_EQ(measured_costs(here, measured, 1), here) << "nothing is scaled twice";
  coll::ProbeCost all = measured;
  all.chain_us = 4 * usual.probe.chain_us;
  EXPECT_EQ(measured_costs(here, all, 1).memory, here.memory) << "the fit has found it already";
  for (double coll::ProbeCost::*each :
       {&coll::ProbeCost::copy_us_per_byte, &coll::ProbeCost::fetch_us,
        &coll::ProbeCost::fetch_us_per_byte, &coll::ProbeCost::line_us,
        &coll::ProbeCost::pass_us_per_byte}) {
    coll::World without = world;
    without.view.measured.*each = 0;
    const CostConstants known = on_this_machine(usual, without);
    EXPECT_EQ(measured_costs(known, measured, 1).memory, known.memory);
  }
  coll::World sockets = world;
  sockets.view.path = &CostConstants::kernel;
  EXPECT_EQ(on_this_machine(usual, sockets).probe.send_us, 0);
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
