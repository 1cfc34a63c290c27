// SPDX-License-Identifier: Apache-2.0
// Predictions follow what ranks measured when they met; plans of sums do not.
#include "planner/costs/measured_costs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "worlds.hpp"

namespace coll {
namespace {

constexpr double ProbeCost::*kAll[] = {
    &ProbeCost::copy_us_per_byte, &ProbeCost::fetch_us,         &ProbeCost::fetch_us_per_byte,
    &ProbeCost::line_us,          &ProbeCost::pass_us_per_byte, &ProbeCost::chain_us,
    &ProbeCost::send_us};

/// A machine where everything that is measured takes `times` as long as on the model's.
ProbeCost machine(double times) {
  ProbeCost probe = usual_costs().probe;
  for (const auto each : kAll) probe.*each *= times;
  return probe;
}

TEST(MeasuredCosts, AreTheModelsWhereNothingDiffersOrIsKnown) {
  EXPECT_EQ(measured_costs(usual_costs(), {}, 1), usual_costs());
  EXPECT_EQ(measured_costs(usual_costs(), machine(1), 1), usual_costs());
  CostConstants unknown = usual_costs();
  unknown.probe = {};
  EXPECT_EQ(measured_costs(unknown, machine(3), 1), unknown);
}

/// Each value scales what follows from it, by itself.
TEST(MeasuredCosts, FollowEachMeasurement) {
  const auto with = [](double ProbeCost::*probe, double times) {
    ProbeCost now = machine(1);
    now.*probe *= times;
    return measured_costs(usual_costs(), now, 1);
  };
  const CostConstants& usual = usual_costs();
  CostConstants expected = usual;
  expected.memory.alpha_us /= 2;
  expected.memory.line_us /= 2;
  expected.memory.long_us /= 2;
  EXPECT_EQ(with(&ProbeCost::line_us, 0.5), expected);
  expected = usual;
  expected.memory.send_us_per_byte /= 4;
  expected.memory.receive_us_per_byte /= 4;
  expected.memory.page_us_per_byte /= 4;
  EXPECT_EQ(with(&ProbeCost::pass_us_per_byte, 0.25), expected);
  expected = usual;
  expected.memory.fetch_us_per_byte *= 16;
  EXPECT_EQ(with(&ProbeCost::fetch_us_per_byte, std::numeric_limits<double>::infinity()), expected);
  expected = usual;
  expected.copy.us_per_byte *= 2;
  expected.memory.fetch_cold_us_per_byte *= 2;
  for (double* each : {&expected.kernel.send_us_per_byte, &expected.kernel.receive_us_per_byte,
                       &expected.kernel.page_us_per_byte}) {
    *each *= 2;
  }
  EXPECT_EQ(with(&ProbeCost::copy_us_per_byte, 2), expected);
  expected = usual;
  expected.memory.fetch_us *= 2;
  EXPECT_EQ(with(&ProbeCost::fetch_us, 2), expected);
  expected = usual;
  expected.kernel.alpha_us *= 2;
  expected.kernel.send_us *= 2;
  EXPECT_EQ(with(&ProbeCost::send_us, 2), expected);
}

TEST(MeasuredCosts, OfSharedCoresDoNotFallBelowHalf) {
  const CostConstants alone = measured_costs(usual_costs(), machine(0.125), 1);
  const CostConstants crowded = measured_costs(usual_costs(), machine(0.125), 4);
  EXPECT_EQ(alone.memory.send_us_per_byte, usual_costs().memory.send_us_per_byte / 8);
  EXPECT_EQ(crowded.memory.send_us_per_byte, usual_costs().memory.send_us_per_byte / 2);
  EXPECT_EQ(crowded.copy.us_per_byte, usual_costs().copy.us_per_byte / 2);
}

/// Ranks that are bound to one core each cannot measure between two.
TEST(MeasuredCosts, OfPassingFollowCopiesWhereNothingElseIsKnown) {
  ProbeCost now = machine(0.75);
  now.pass_us_per_byte = 0;
  const auto sent = [&] { return measured_costs(usual_costs(), now, 1).memory.send_us_per_byte; };
  EXPECT_EQ(sent(), usual_costs().memory.send_us_per_byte * 0.75);
  now.copy_us_per_byte /= 8;
  EXPECT_EQ(sent(), usual_costs().memory.send_us_per_byte / 2);
}

TEST(MeasuredCosts, AreThoseOfTheSlowestHostWhereItWasDisturbedTheLeast) {
  const Layout layout = make_layout(
      std::vector<Place>{{.host = 0}, {.host = 1}, {.host = 0}, {.host = 1}, {.host = 0}});
  std::vector<ProbeCost> ranks(5);
  const double copies[] = {3, 2, 4, 1, 0};  // the last one does not know
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].copy_us_per_byte = copies[rank];
  ranks[4].line_us = 7;
  const ProbeCost all = agreed(ranks, layout);
  EXPECT_EQ(all.copy_us_per_byte, 3);
  EXPECT_EQ(all.line_us, 7);
  EXPECT_EQ(all.send_us, 0);
}

/// A host whose kernel forbids fetching makes it dear for all.
TEST(MeasuredCosts, AreInfiniteWhereAHostForbidsThem) {
  constexpr double kForbidden = std::numeric_limits<double>::infinity();
  const Layout layout =
      make_layout(std::vector<Place>{{.host = 0}, {.host = 0}, {.host = 1}, {.host = 1}});
  const double some = usual_costs().probe.fetch_us_per_byte;
  const auto of = [&](std::vector<double> values) {
    std::vector<ProbeCost> ranks(4);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      ranks[rank].fetch_us_per_byte = values[rank];
    return agreed(ranks, layout);
  };
  const ProbeCost all = of({kForbidden, kForbidden, kForbidden, kForbidden});
  EXPECT_EQ(all.fetch_us_per_byte, kForbidden);
  EXPECT_EQ(copy_factors(usual_costs(), all).fetch, CopyFactors::kMostFetch);
  const ProbeCost one_host = of({some, some, kForbidden, kForbidden});
  EXPECT_EQ(one_host.fetch_us_per_byte, kForbidden);
  EXPECT_EQ(copy_factors(usual_costs(), one_host).fetch, CopyFactors::kMostFetch);
  EXPECT_EQ(of({kForbidden, some, some, kForbidden}).fetch_us_per_byte, some);
  EXPECT_EQ(of({0, kForbidden, 0, 0}).fetch_us_per_byte, kForbidden);
  EXPECT_EQ(of({0, 0, 0, 0}).fetch_us_per_byte, 0) << "not known";
  // Also by a model that does not know the value of its own machine.
  CostConstants unknown = usual_costs();
  unknown.probe.fetch_us_per_byte = 0;
  EXPECT_EQ(copy_factors(unknown, all).fetch, CopyFactors::kMostFetch);
}

/// Bits depend on the plan, and a measurement may differ from one start to the next.
TEST(MeasuredCosts, ScalePredictionsOfSumsAndNotTheirPlans) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    for (const Rank ranks : {2, 3, 8, 33}) {
      for (const double per_core : {1.0, 4.0}) {
        for (std::uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 64) {
          World usual = world_of(ranks);
          usual.view.ranks_per_core = per_core;
          World slow = usual;
          slow.view.measured = machine(2);
          slow.view.factors = copy_factors(usual_costs(), slow.view.measured);
          const Plan plan = plan_of(slow, collective, bytes);
          EXPECT_EQ(plan.digest(), plan_of(usual, collective, bytes).digest())
              << name_of(collective) << ' ' << bytes;
          const auto size = static_cast<double>(bytes);
          const double times = expect(slow, plan, size).us / expect(usual, plan, size).us;
          // All costs but changes of ranks are twice as high.
          EXPECT_GT(times, per_core > 1 ? 1.01 : 1.95) << name_of(collective) << ' ' << bytes;
          EXPECT_LE(times, 2.001) << name_of(collective) << ' ' << bytes;
        }
      }
    }
  }
}

TEST(MeasuredCosts, AreExplained) {
  World world = world_of(2);
  const auto explained = [&](Collective collective) {
    return explain(world, plan_of(world, collective, 1 << 16), 16);
  };
  EXPECT_TRUE(contains(explained(Collective::all_gather), "model: xeon-2-core, 2026-11\n"));
  EXPECT_FALSE(contains(explained(Collective::all_gather), "measured here"));
  world.view.measured = machine(2);
  world.view.factors = {-1, 2};
  EXPECT_TRUE(contains(explained(Collective::all_gather), " a cache line 2.00;"));
  EXPECT_TRUE(contains(explained(Collective::all_gather), "copies x 0.5 and fetches x 4"));
  EXPECT_TRUE(contains(explained(Collective::all_reduce), "copies x 1 and fetches x 1"));
}

}  // namespace
}  // namespace coll
