// SPDX-License-Identifier: Apache-2.0
// How plans are cut, and what is remembered.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "planner/plan_memory.hpp"
#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;

/// Two ranks far apart: the wire holds more than the connections do in the rules' slices.
World far_apart() {
  World world = world_of(2);
  world.shared_memory = false;
  Network network;
  network.links = {{"there", 1e-4}, {"back", 1e-4}};
  network.route = [](Rank source, Rank) {
    return Route{.alpha_us = 1000, .links = {static_cast<std::uint32_t>(source)}};
  };
  world.network = std::make_shared<const Network>(network);
  return world;
}

TEST(Planner, CutsCallsAsSimulationsFindBest) {
  const World world = far_apart();
  const CollectiveSpec spec{all_reduce, 2, 0};
  const std::uint32_t size = size_class(64 << 20);
  const Algorithm& algorithm = *plan_of(world, all_reduce, 64 << 20).algorithm;
  const Plan rule = plan_with(world, spec, algorithm, {}, size);
  const Prediction by_rule = predict(world, world.costs(), rule, 64 << 20);
  const Plan plan = plan_of(world, all_reduce, 64 << 20);
  EXPECT_GT(plan.slice_bytes * plan.lanes, rule.slice_bytes * rule.lanes);
  EXPECT_LT(2 * plan.predicted_us, by_rule.us);
  EXPECT_EQ(plan.predicted_us, predict(world, world.costs(), plan, 64 << 20).us);
  EXPECT_TRUE(contains(explain(world, plan, size),
                       std::to_string(plan.lanes) + " x " + std::to_string(plan.slice_bytes)));
}

TEST(Planner, KeepsTheRulesCutUnlessAnotherIsClearlyBetter) {
  for (const Rank ranks : {2, 3, 8}) {
    for (const double crowd : {1.0, 4.0}) {
      World world = world_of(ranks);
      world.slot_bytes = 1 << 20;
      world.view.ranks_per_core = crowd;
      for (const std::uint64_t bytes : {8ULL, 64ULL << 10, 1ULL << 20, 64ULL << 20}) {
        const Plan plan = plan_of(world, all_gather, bytes);
        const Plan rule = plan_with(world, plan.spec, *plan.algorithm, {}, size_class(bytes));
        const double size = most_bytes(size_class(bytes));
        if (plan.loans != Loans::all) {
          const bool two = ranks == 2 && crowd == 1;
          EXPECT_LE(plan.slice_bytes, world.passing_bytes * (two ? 4 : 1));
        }
        const Prediction by_rule = predict(world, world.costs(), rule, size),
                         best = predict(world, world.costs(), plan, size);
        if (plan.digest() == rule.digest() && plan.loans == rule.loans) {
          EXPECT_EQ(by_rule.us, best.us);
        } else {
          EXPECT_TRUE(by_rule.slower(alike(world), best)) << ranks << " ranks, " << bytes;
        }
      }
    }
  }
}

TEST(Planner, CutsTheCallsOfTwoRanksOfAHostInOneLane) {
  const auto cut = [](Rank ranks, double per_core, Collective collective, bool unequal = false) {
    World world = world_of(ranks);
    world.slot_bytes = 1 << 20;
    world.view.ranks_per_core = per_core;
    world.view.factors.fetch = CopyFactors::kMostFetch;  // through slots
    const Plan chosen = plan_of(world, collective, 16 << 20);
    CollectiveSpec spec{collective, ranks, 0};
    spec.unequal = unequal;
    const Plan plan = plan_with(world, spec, *chosen.algorithm, {}, size_class(16 << 20));
    if (ranks == 2 && per_core == 1) {
      EXPECT_EQ(chosen.lanes, 1U) << "simulations change nothing";
    }
    return std::pair(plan.lanes, plan.slice_bytes);
  };
  const std::uint32_t passing = world_of(2).passing_bytes;
  for (const Collective exchange : {all_gather, all_to_all})
    EXPECT_EQ(cut(2, 1, exchange), std::pair(1U, 4 * passing));
  EXPECT_EQ(cut(2, 1, all_to_all, true), std::pair(1U, passing)) << "one may send all";
  EXPECT_EQ(cut(2, 1, broadcast), std::pair(1U, passing));
  EXPECT_EQ(cut(2, 1, reduce), std::pair(1U, passing));
  for (const Collective exchange : {all_reduce, reduce_scatter}) {
    EXPECT_EQ(cut(2, 1, exchange), std::pair(1U, 2 * passing));
    EXPECT_EQ(cut(2, 2, exchange), std::pair(2U, passing)) << "on one core";
    EXPECT_EQ(cut(3, 1, exchange), std::pair(2U, passing));
  }
  EXPECT_EQ(cut(2, 1, reduce_scatter, true), std::pair(1U, passing)) << "one may send all";
  World fetching = world_of(2);
  fetching.slot_bytes = 1 << 20;
  for (const std::int32_t doublings : {0, 1}) {
    fetching.view.factors.fetch = doublings;  // 0.28 and 0.56 times as long as through slots
    EXPECT_EQ(plan_of(fetching, all_reduce, 16 << 20).slice_bytes,
              doublings == 0 ? 512U << 10 : 2 * passing)
        << "longer than sums', if that clearly pays";
  }
  EXPECT_EQ(cut(2, 2, all_gather), std::pair(2U, passing)) << "on one core";
  EXPECT_EQ(cut(3, 1, all_gather), std::pair(2U, passing));
}

/// In each, every rank fills slots for every other one at the same time.
TEST(Planner, CutsAnAllToAllInTwoLanesOnlyWhileTheirSlotsFitInTheCacheThatRanksShare) {
  const auto lanes = [](Rank ranks, double per_core, Collective collective, bool shared = true,
                        bool fetched = false) {
    World world = world_of(ranks);
    world.shared_memory = shared;
    world.view.ranks_per_core = per_core;
    if (!fetched) world.view.factors.fetch = CopyFactors::kMostFetch;
    const CollectiveSpec spec{collective, ranks, 0};
    const Plan chosen = plan_of(world, collective, 16 << 20);
    const Plan plan = plan_with(world, spec, *chosen.algorithm, {}, size_class(16 << 20));
    if (collective == all_to_all && shared && !fetched) {
      EXPECT_EQ(chosen.lanes, plan.lanes) << "simulations change nothing";
    }
    return plan.lanes;
  };
  const double own = usual_costs().cache.own_bytes;
  const double others_slots = 2.0 * world_of(2).passing_bytes;
  for (const double per_core : {2, 4}) {
    const auto most = static_cast<Rank>(1 + own / (per_core * others_slots));
    EXPECT_EQ(lanes(most, per_core, all_to_all), 2U) << per_core;
    EXPECT_EQ(lanes(most + 1, per_core, all_to_all), 1U) << per_core;
    EXPECT_EQ(lanes(most + 1, per_core, all_reduce), 2U) << "one peer after the other";
    EXPECT_EQ(lanes(most + 1, 1, all_to_all), 2U) << "a cache each";
    EXPECT_EQ(lanes(most + 1, per_core, all_to_all, false), 2U) << "no slots in shared memory";
    EXPECT_EQ(lanes(most + 1, per_core, all_to_all, true, true), 2U) << "no slots at all";
  }
}

/// Ranks that only TCP joins.
World tcp_world(Rank ranks, double per_core, PathCost CostConstants::*path) {
  World world;
  std::vector<Place> places(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    places[rank].host = static_cast<Rank>(rank);
  world.layout = make_layout(places);
  world.slot_bytes = 1 << 20;
  world.passing_bytes = 256 << 10;
  world.shared_memory = false;
  world.view.path = world.view.between = path;
  world.view.ranks_per_core = per_core;
  return world;
}

TEST(Planner, CutsWhatTwoRanksOfAHostSendOverTcpInOneLaneOfWholeSlots) {
  const auto cut = [](Rank ranks, double per_core, PathCost CostConstants::*path,
                      Collective collective, std::uint64_t bytes) {
    const World world = tcp_world(ranks, per_core, path);
    const CollectiveSpec spec{collective, ranks, 0};
    const Algorithm& algorithm = *plan_of(world, collective, bytes).algorithm;
    const Plan plan = plan_with(world, spec, algorithm, {}, size_class(bytes));
    return std::pair(plan.lanes, plan.slice_bytes);
  };
  constexpr std::uint32_t kShort = 256 << 10, kWhole = 1 << 20;
  constexpr std::uint64_t kLong = 64 << 20;
  constexpr auto kKernel = &CostConstants::kernel;
  for (const Collective collective :
       {all_reduce, reduce_scatter, reduce, all_gather, all_to_all, broadcast, gather, scatter}) {
    for (const std::uint64_t bytes : {kLong / 64, kLong / 16, kLong / 4, kLong}) {
      const World world = tcp_world(2, 1, kKernel);
      const Plan chosen = plan_of(world, collective, bytes);
      EXPECT_EQ(std::pair(chosen.lanes, chosen.slice_bytes), std::pair(1U, kWhole))
          << "simulations change nothing: " << name_of(collective) << " of " << bytes;
      EXPECT_EQ(cut(2, 1, kKernel, collective, bytes), std::pair(1U, kWhole));
    }
  }
  EXPECT_EQ(cut(2, 2, kKernel, all_reduce, kLong), std::pair(2U, kShort)) << "on one core";
  EXPECT_EQ(cut(3, 1, kKernel, all_reduce, kLong), std::pair(2U, kShort));
  EXPECT_EQ(cut(2, 1, &CostConstants::network, all_reduce, kLong), std::pair(2U, kShort));
  EXPECT_EQ(cut(2, 1, &CostConstants::network, broadcast, kLong), std::pair(2U, kWhole));
}

TEST(Planner, CutsWhatATableChoosesAsItCutsAnything) {
  // The formula finds it so slow that it is not simulated among the candidates.
  World world = world_of(8);
  const CollectiveSpec spec{all_reduce, 8, 0};
  const std::uint32_t size = size_class(1 << 20);
  const Candidate worst = candidates(world, spec, size).back();
  ASSERT_TRUE(worst.prediction.bottleneck.empty());
  world.tuning = {{.collective = all_reduce,
                   .bytes = 1 << 20,
                   .scope = {},
                   .date = {},
                   .timings = {{{std::string(worst.plan.algorithm->name)}, 1, 0.01}}}};
  const Plan tuned = plan_of(world, all_reduce, 1 << 20);
  EXPECT_EQ(tuned.algorithm, worst.plan.algorithm);
  World forced = world_of(8);
  forced.algorithm = worst.plan.algorithm->name;
  const Plan plan = plan_of(forced, all_reduce, 1 << 20);
  EXPECT_EQ(tuned.digest(), plan.digest());
  EXPECT_EQ(tuned.predicted_us, plan.predicted_us);
}

TEST(Planner, KnowsTheCoresOfEachHost) {
  const auto cores = [](const World& world) {
    return network_of(world, world.costs(), {}, 8).core;
  };
  World world = world_of(6);
  world.view.ranks_per_core = 3;
  EXPECT_EQ(cores(world), (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1}));
  world.view.ranks_per_core = 1.5;
  EXPECT_EQ(cores(world), (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1}));
  // Four ranks on a host of four cores, two on one of one.
  const std::vector<Place> places{{.host = 0}, {.host = 0}, {.host = 0},
                                  {.host = 0}, {.host = 1}, {.host = 1}};
  world.layout = make_layout(places);
  world.view.ranks_per_core = 2;
  world.view.cores = {4, 1};
  EXPECT_EQ(cores(world), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 4}));
  // Hosts of the layout that are one machine of two cores.
  world.view.cores = {2};
  EXPECT_EQ(cores(world), (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1}));
  world.view = {};
  EXPECT_TRUE(cores(world).empty());
}

/// Of 8 ranks on 2 cores: a call of 256 KiB uses 2 slots of 64 KiB of each peer, and these stay in
/// the caches, all 8 would not; one of 1 MiB uses more than the caches hold.
TEST(Planner, CountsTheSlotsThatACallUses) {
  World world = world_of(8);
  world.view.ranks_per_core = 4;
  const auto us_per_byte = [&](std::uint64_t bytes) {
    const Plan plan =
        plan_with(world, {all_reduce, 8, 0}, *find_algorithm("two_shot"), {}, size_class(bytes));
    return network_of(world, world.costs(), plan, static_cast<double>(bytes))
        .route(0, 1)
        .receive_us_per_byte;
  };
  EXPECT_EQ(us_per_byte(256 << 10), usual_costs().memory.receive_us_per_byte);
  EXPECT_EQ(us_per_byte(1 << 20),
            usual_costs().memory.receive_us_per_byte * usual_costs().cache.cold_slots);
}

TEST(Planner, RoutesBetweenHostsAreAsTheWorldHasThem) {
  World world = far_apart();
  world.network = nullptr;
  world.layout = make_layout(std::vector<Place>{{.host = 0}, {.host = 1}});
  for (const auto path : {&CostConstants::network, &CostConstants::kernel}) {
    world.view.between = path;
    EXPECT_EQ(network_of(world, world.costs(), {}, 8).route(0, 1).alpha_us,
              (usual_costs().*path).alpha_us);
  }
}

TEST(Planner, RemembersPlansOfEqualWorldsOnly) {
  World world = world_of(5);
  for (int round = 0; round < 2; ++round) {
    world.algorithm = "ring";
    EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).algorithm->name, "ring");
    world.algorithm = "two_shot";
    EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).algorithm->name, "two_shot");
    world.cut.lanes = 3;
    EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).lanes, 3U);
    world.cut.lanes = 0;
    EXPECT_NE(plan_of(world, all_reduce, 1 << 20).lanes, 3U);
    world.view.ranks_per_core = 5;
    const double crowded = plan_of(world, all_reduce, 1 << 20).predicted_us;
    world.view.ranks_per_core = 1;
    EXPECT_LT(plan_of(world, all_reduce, 1 << 20).predicted_us, crowded);
    EXPECT_NE(plan_of(world, broadcast, 8, 1).spec, plan_of(world, broadcast, 8, 2).spec);
  }
}

/// The usual model, with a slower shared memory.
std::shared_ptr<const CostModel> slower_model() {
  CostModel model = *default_cost_model();
  model.constants.memory.alpha_us *= 10;
  return std::make_shared<const CostModel>(model);
}

TEST(Planner, PredictsByTheModelOfItsWorld) {
  World slow = world_of(6);
  slow.model = slower_model();
  EXPECT_GT(plan_of(slow, all_reduce, 8).predicted_us,
            2 * plan_of(world_of(6), all_reduce, 8).predicted_us);
}

TEST(Planner, RemembersNothingOfAWorldThatDiffers) {
  World world = world_of(6);
  const CollectiveSpec spec{all_gather, 6, 0};
  const std::uint32_t size = size_class(4096);
  EXPECT_FALSE(remembered_plan(world, {spec, size}));
  const Plan plan = plan_of(world, all_gather, 4096);
  ASSERT_TRUE(remembered_plan(world, {spec, size}));
  EXPECT_EQ(remembered_plan(world, {spec, size})->digest(), plan.digest());
  EXPECT_FALSE(remembered_plan(world, {spec, size + 1}));
  EXPECT_FALSE(remembered_plan(world, {{broadcast, 6, 0}, size}));
  World same = world;
  same.model = std::make_shared<const CostModel>(*world.model);
  EXPECT_TRUE(remembered_plan(same, {spec, size})) << "an equal model";
  const auto differs = [&](const auto& change) {
    World other = world;
    change(other);
    return !remembered_plan(other, {spec, size});
  };
  EXPECT_TRUE(differs([](World& of) {
    of.layout = make_layout(std::vector<Place>{{.host = 0}, {.host = 1}, {}, {}, {}, {}});
  }));
  EXPECT_TRUE(differs([](World& of) { of.view.path = &CostConstants::kernel; }));
  EXPECT_TRUE(differs([](World& of) { of.view.between = &CostConstants::kernel; }));
  EXPECT_TRUE(differs([](World& of) { of.view.cores = {3}; }));
  EXPECT_TRUE(differs([](World& of) { of.view.factors.copy = 1; }));
  EXPECT_TRUE(differs([](World& of) { of.view.factors.fetch = 1; }));
  EXPECT_FALSE(differs([](World& of) { of.view.measured.line_us = 1; })) << "no plan needs it";
  EXPECT_TRUE(differs([](World& of) { of.model = slower_model(); }));
  EXPECT_TRUE(differs([](World& of) { of.slot_bytes /= 2; }));
  EXPECT_TRUE(differs([](World& of) { of.credits /= 2; }));
  EXPECT_TRUE(differs([](World& of) { of.passing_bytes /= 2; }));
  EXPECT_TRUE(differs([](World& of) { of.shared_memory = false; }));
  EXPECT_TRUE(differs([](World& of) { of.tuning = {{all_gather, 8, {}, "", {}}}; }));
  EXPECT_TRUE(differs([](World& of) { of.network = std::make_shared<const Network>(); }));
}

TEST(Planner, CutsAsKnobsDemand) {
  World world = far_apart();
  world.cut = {2, 32 << 10};
  const Plan plan = plan_of(world, all_reduce, 64 << 20);
  EXPECT_EQ(plan.lanes, 2U);
  EXPECT_EQ(plan.slice_bytes, 32U << 10);
}

TEST(Planner, CutsAsTheAlgorithmKnobDemandsOverTheKnobsForAllCalls) {
  World world = far_apart();
  world.cut = {1, 32 << 10};
  world.algorithm = "ring/2x48K@1M-,all_gather=ring/4x16K";
  const auto cut = [&](Collective collective, std::uint64_t bytes) {
    const Plan plan = plan_of(world, collective, bytes);
    EXPECT_EQ(plan.algorithm->name, "ring");
    EXPECT_TRUE(plan.forced);
    return Cut{plan.lanes, plan.slice_bytes};
  };
  EXPECT_EQ(cut(all_reduce, 64 << 20), (Cut{2, 48 << 10}));
  EXPECT_EQ(cut(all_gather, 64), (Cut{4, 16 << 10}));
  const Plan other = plan_of(world, all_reduce, 1 << 10);
  EXPECT_FALSE(other.forced);
  EXPECT_EQ((Cut{other.lanes, other.slice_bytes}), (Cut{1, 32 << 10}));

  const Plan plan = plan_of(world, all_reduce, 64 << 20);
  const std::string text = explain(world, plan, size_class(64 << 20));
  EXPECT_TRUE(contains(text, "cuts: 2 x 49152 bytes")) << text;
  EXPECT_FALSE(contains(text, " x 65536")) << text;  // nothing else was weighed
}

TEST(Planner, CutsNoFurtherThanConnectionsCarry) {
  World world = world_of(6);
  const auto cut = [&](const char* demanded) {
    world.algorithm = demanded;
    const Plan plan = plan_of(world, all_reduce, 64 << 20);
    return Cut{plan.lanes, plan.slice_bytes};
  };
  EXPECT_EQ(cut("ring/1000x1G"), (Cut{world.max_lanes, world.slot_bytes}));
  EXPECT_EQ(cut("ring/1x100"), (Cut{1, 128}));  // a multiple of 64
  world.algorithm = "recursive_halving_doubling/1x1";
  const Plan plan = plan_of(world, all_reduce, 64 << 20);
  EXPECT_GE(plan.slice_bytes, plan.message_chunks * 64);
}

TEST(Planner, CutsToMeasureAreThoseThatMakeADifference) {
  World world = world_of(2);
  world.slot_bytes = 1 << 20;
  const auto list = [&](double moved, std::uint64_t bytes) {
    Cost cost;
    cost.sent = moved;
    return sensible_cuts(world, cost, size_class(bytes));
  };
  EXPECT_TRUE(list(1, 16 << 10).empty());
  EXPECT_TRUE(list(0.5, 32 << 10).empty());
  using Cuts = std::vector<Cut>;
  EXPECT_EQ(list(1, 32 << 10), (Cuts{{1, 16 << 10}, {2, 16 << 10}, {1, 64 << 10}}));
  EXPECT_EQ(list(1, 64 << 10), (Cuts{{1, 16 << 10}, {2, 16 << 10}, {4, 16 << 10}, {1, 64 << 10}}));
  EXPECT_EQ(list(1, 64 << 20).size(), 12U);
  world.slot_bytes = 256 << 10;
  EXPECT_EQ(list(1, 64 << 20).size(), 9U);
}

}  // namespace
}  // namespace coll
