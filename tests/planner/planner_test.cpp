// SPDX-License-Identifier: Apache-2.0
// What the planner chooses, what it must never choose, and what it says about it.
#include "planner/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;

constexpr std::uint32_t kClasses = 40;  ///< up to 1 TiB

TEST(Planner, PutsASizeIntoTheClassOfTheNextPowerOfTwo) {
  EXPECT_EQ(size_class(0), 0U);
  EXPECT_EQ(size_class(1), 0U);
  EXPECT_EQ(size_class(2), 1U);
  EXPECT_EQ(size_class(4096), 12U);
  EXPECT_EQ(size_class(4097), 13U);
  EXPECT_EQ(size_class(std::uint64_t{1} << 40), 40U);
}

/// Whatever a rank's two buffers are, what passes through it takes its time: the root of a flat
/// reduce gets n-1 times what anybody sends.
TEST(Planner, CountsWhatARankReceives) {
  for (const Rank ranks : {3, 4, 8, 64}) {
    const World world = world_of(ranks);
    for (const Collective collective : {reduce, gather, scatter, broadcast}) {
      const Plan plan = plan_of(world, collective, 64 << 20);
      const Cost cost = plan.algorithm->cost(plan.spec, Layout::flat(plan.spec.ranks));
      EXPECT_LE(std::max(cost.sent, cost.received), 2.0)
          << plan.algorithm->name << " for " << name_of(collective) << " of " << ranks << " ranks";
      EXPECT_GE(plan.predicted_us, cost.received * (64 << 20) * world.path().receive_us_per_byte);
    }
  }
}

TEST(Planner, TakesFewRoundsForFewBytesAndFewBytesForMany) {
  for (const Rank ranks : {4, 8, 16}) {
    const Plan small = plan_of(world_of(ranks), all_reduce, 8);
    const Plan large = plan_of(world_of(ranks), all_reduce, 256 << 20);
    const auto costs = [](const Plan& plan) {
      return plan.algorithm->cost(plan.spec, Layout::flat(plan.spec.ranks));
    };
    EXPECT_LE(costs(small).rounds, 4) << small.algorithm->name << ", " << ranks << " ranks";
    EXPECT_LT(costs(large).sent, 2) << large.algorithm->name << ", " << ranks << " ranks";
  }
}

/// Steps cost per pass, and a pass is as long as its chunks are many: one that halves, or passes
/// blocks on, must not look cheaper than one that sends each block where it belongs.
TEST(Planner, CountsStepsByThePassesTheyTake) {
  const Plan two = plan_of(world_of(2), all_reduce, 64 << 20);
  EXPECT_EQ(two.algorithm->cost(two.spec, Layout::flat(two.spec.ranks)).reduced, 0.5)
      << two.algorithm->name;
  for (const Rank ranks : {4, 8, 16}) {
    for (const Collective collective : {gather, scatter}) {
      const Plan plan = plan_of(world_of(ranks), collective, 64 << 20);
      EXPECT_EQ(plan.algorithm->name, "linear") << name_of(collective) << ", " << ranks << " ranks";
    }
  }
}

/// Each end plans by its own operation and peer.
TEST(Planner, CutsAMessageAlikeAtBothItsEnds) {
  const World world = world_of(5);
  for (std::uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    const auto sends = make_plan(world, {{Collective::send, 5, 3}, size_class});
    const auto receives = make_plan(world, {{Collective::recv, 5, 1}, size_class});
    ASSERT_TRUE(sends.ok() && receives.ok());
    EXPECT_EQ(sends->lanes, receives->lanes) << size_class;
    EXPECT_EQ(sends->slice_bytes, receives->slice_bytes) << size_class;
    EXPECT_EQ(sends->digest(), receives->digest()) << size_class;
  }
}

TEST(Planner, MakesPlansThatTheConnectionsCanCarry) {
  for (const Rank ranks : {1, 2, 3, 7, 64, 1000}) {
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (ranks == 1 && (collective == send || collective == recv)) continue;
      const World world = world_of(ranks);
      Prediction before;
      for (std::uint32_t size_class = 0; size_class < kClasses; size_class += 3) {
        const auto plan = make_plan(world, {{collective, ranks, 0}, size_class});
        ASSERT_TRUE(plan.ok()) << plan.status().text();
        EXPECT_TRUE(plan->algorithm->supports(plan->spec, Layout::flat(plan->spec.ranks)));
        EXPECT_FALSE(plan->forced);
        EXPECT_GE(plan->lanes, 1U);
        EXPECT_LE(plan->lanes, world.max_lanes);
        EXPECT_LE(plan->slice_bytes, world.slot_bytes);
        EXPECT_GE(plan->slice_bytes, std::min(world.slot_bytes, plan->message_chunks));
        const Prediction now{.us = plan->predicted_us,
                             .each_us = plan->predicted_each_us,
                             .bottleneck = {},
                             .busy = 0};
        EXPECT_FALSE(before.slower(alike(world), now))
            << "more bytes, less time? " << name_of(collective) << " of " << ranks
            << " ranks, class " << size_class;
        before = now;
      }
    }
  }
}

static_assert(depends_on_order(ReduceOp::sum, DataType::float16) &&
              depends_on_order(ReduceOp::avg, DataType::float8_e4m3) &&
              depends_on_order(ReduceOp::prod, DataType::complex64) &&
              !depends_on_order(ReduceOp::max, DataType::float32) &&
              !depends_on_order(ReduceOp::lxor, DataType::float64) &&
              !depends_on_order(ReduceOp::avg, DataType::int8) &&
              !depends_on_order(ReduceOp::sum, DataType::boolean));

/// Whatever the knobs and the table say.
TEST(Planner, KeepsTheOrderOfSums) {
  for (const Rank ranks : {2, 3, 8, 100}) {
    World world = world_of(ranks);
    world.algorithm = "ring";
    world.tuning = {
        {all_reduce,
         1 << 20,
         {},
         "",
         {{{"ring"}, 1, 0.1}, {{"two_shot"}, 2, 0.1}, {{"recursive_doubling"}, 3, 0.1}}}};
    for (const Collective collective : {all_reduce, reduce, reduce_scatter}) {
      for (std::uint32_t size = 0; size < kClasses; size += 2) {
        const CollectiveSpec spec{collective, ranks, 0, false, SumOrder::tree};
        const auto plan = make_plan(world, {spec, size});
        ASSERT_TRUE(plan.ok()) << plan.status().text();
        EXPECT_TRUE(plan->algorithm->serves(spec, world.layout)) << plan->algorithm->name;
        EXPECT_EQ(plan->spec, spec);
        EXPECT_NE(plan->algorithm->name == "ring", ranks > 2 || collective == reduce);
        CollectiveSpec free = spec;
        free.order = SumOrder::any;
        const auto other = make_plan(world, {free, size});
        ASSERT_TRUE(other.ok());
        EXPECT_NE(other->algorithm->name == "ring", collective == reduce) << "a plan of its own";
      }
    }
    world.algorithm = "all_reduce=ring";
    const auto cannot = make_plan(world, {{all_reduce, ranks, 0, false, SumOrder::tree}, 20});
    EXPECT_EQ(cannot.ok(), ranks == 2);
    world.algorithm = "";
    const auto tuned = make_plan(world, {{all_reduce, ranks, 0, false, SumOrder::tree}, 20});
    ASSERT_TRUE(tuned.ok());
    EXPECT_EQ(tuned->measured_us > 0, ranks == 2) << "of more ranks, tables know no order";
  }
}

/// A table may name what is there for an order only: it is not weighed for other calls.
TEST(Planner, LeavesTheOrderedAloneWhereThereIsNoOrder) {
  for (const Rank ranks : {2, 3}) {
    World world = world_of(ranks);
    world.tuning = {
        {all_reduce, 1 << 20, {}, "", {{{"one_shot_ordered"}, 1, 0.1}, {{"ring"}, 5, 0.1}}}};
    for (const SumOrder order : {SumOrder::any, SumOrder::tree}) {
      const auto plan = make_plan(world, {{all_reduce, ranks, 0, false, order}, 20});
      ASSERT_TRUE(plan.ok()) << plan.status().text();
      const bool free = order == SumOrder::any || ranks == 2;
      EXPECT_EQ(plan->measured_us > 0, free);
      if (!free) continue;
      EXPECT_EQ(plan->algorithm->name, "ring");
      for (const Candidate& of : candidates(world, plan->spec, 20)) {
        EXPECT_FALSE(of.plan.algorithm->for_order_only) << of.plan.algorithm->name;
      }
    }
  }
}

/// A search for the best alone leaves out only what would not be chosen.
TEST(Planner, ChoosesAlikeWhetherOrNotItPredictsAll) {
  for (const Rank ranks : {2, 3, 5, 8}) {
    for (const double crowd : {1.0, 2.0}) {
      for (const bool shared : {true, false}) {
        World world = world_of(ranks);
        world.view.ranks_per_core = crowd;
        world.shared_memory = shared;
        if (!shared) world.view.path = &CostConstants::kernel;
        for (int i = 0; i < kCollectives; ++i) {
          const auto collective = static_cast<Collective>(i);
          for (const std::uint32_t size : {3U, 13U, 16U, 20U, 24U}) {
            const CollectiveSpec spec{collective, ranks, ranks - 1};
            const std::string what = std::string(name_of(collective)) + " of 2^" +
                                     std::to_string(size) + " bytes, ranks " +
                                     std::to_string(ranks) + ", crowd " + std::to_string(crowd);
            const Candidate all = candidates(world, spec, size).front();
            const Candidate best = candidates(world, spec, size, Search::best).front();
            ASSERT_EQ(best.plan.algorithm, all.plan.algorithm) << what;
            EXPECT_EQ(best.prediction.us, all.prediction.us) << what;
            const Plan cut = cuts(world, all.plan, size).front().plan;
            const Result<Plan> plan = plan_afresh(world, {spec, size});
            ASSERT_TRUE(plan.ok());
            EXPECT_EQ(plan->digest(), cut.digest()) << what;
            EXPECT_EQ(plan->loans, cut.loans) << what;
          }
        }
      }
    }
  }
}

TEST(Planner, LetsTheKnobsDecide) {
  World world = world_of(6);
  world.cut = {3, 4096};
  world.algorithm = "binomial,all_reduce=ring";
  Plan plan = plan_of(world, all_reduce, 1 << 20);
  EXPECT_EQ(plan.algorithm->name, "ring");
  EXPECT_TRUE(plan.forced);
  EXPECT_EQ(plan.lanes, 3U);
  EXPECT_EQ(plan.slice_bytes, 4096U);
  EXPECT_EQ(plan_of(world, reduce, 8).algorithm->name, "binomial");
  EXPECT_FALSE(plan_of(world, all_to_all, 8).forced);  // binomial cannot

  world.cut.lanes = 100;  // as many as there are
  EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).lanes, world.max_lanes);

  world.algorithm = "all_to_all=ring";
  const auto cannot = make_plan(world, {{all_to_all, 6, 0}, 3});
  ASSERT_FALSE(cannot.ok());
  EXPECT_EQ(cannot.status().code(), Code::unsupported);
  EXPECT_TRUE(contains(cannot.status().text(), "ring, which cannot do all_to_all with 6 ranks"));
}

/// A rank's exchange with itself, whatever the others need.
TEST(Planner, OneRankAmongSeveralCopies) {
  World world = world_of(4);
  world.layout =
      make_layout(std::vector<Place>{{.host = 0}, {.host = 0}, {.host = 1}, {.host = 1}});
  for (const char* const forced : {"", "hierarchical_ring", "broadcast=chain"}) {
    world.algorithm = forced;
    const Result<Plan> plan = make_plan(world, {{broadcast, 1, 0}, 20});
    ASSERT_TRUE(plan.ok()) << plan.status().text();
    EXPECT_EQ(plan->algorithm->name, "local") << forced;
  }
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_EQ(algorithm.supports({broadcast, 1, 0}, world.layout), algorithm.name == "local")
        << algorithm.name;
  }
}

TEST(Planner, HasAnotherDigestForEachDifferenceThatRanksMustNotice) {
  const Plan plan = plan_of(world_of(4), all_reduce, 1 << 20);
  Plan other = plan;
  EXPECT_EQ(plan.digest(), other.digest());
  other.lanes += 1;
  EXPECT_NE(plan.digest(), other.digest());
  other = plan;
  other.slice_bytes /= 2;
  EXPECT_NE(plan.digest(), other.digest());
  other = plan;
  other.message_chunks += 1;
  EXPECT_NE(plan.digest(), other.digest());
  other = plan;
  other.algorithm = find_algorithm(plan.algorithm->name == "ring" ? "chain" : "ring");
  EXPECT_NE(plan.digest(), other.digest());
}

/// Who talks to all peers at once uses more slots than the caches hold.
TEST(Planner, SparesTheCachesWhereManyRanksShareThem) {
  World world = world_of(8);
  world.view.ranks_per_core = 4;
  EXPECT_EQ(plan_of(world, all_reduce, 32 << 10).algorithm->name, "two_shot");
  EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).algorithm->name, "ring");
}

TEST(Planner, WhereRanksShareCoresAFewRoundsLessAreWorthConnections) {
  World world = world_of(8);
  world.view.ranks_per_core = 4;
  for (const std::uint64_t bytes : {32ULL, 2ULL << 10, 32ULL << 10}) {
    const Plan plan = plan_of(world, reduce_scatter, bytes);
    EXPECT_EQ(plan.algorithm->name, "one_shot") << bytes;
    // Others are as fast to the model, and have fewer connections.
    const auto others = candidates(world, plan.spec, size_class(bytes));
    EXPECT_TRUE(std::ranges::any_of(others, [&](const Candidate& other) {
      return other.plan.cost.peers < plan.cost.peers &&
             !other.prediction.slower(alike(world), others.front().prediction);
    })) << bytes;
  }
}

/// In ordered sums to a root it is the other way round.
TEST(Planner, WhereRanksShareCoresOrderedSumsToARootTakeFewConnections) {
  World world = world_of(8);
  world.view.ranks_per_core = 4;
  const auto plan = make_plan(world, {{reduce, 8, 0, false, SumOrder::tree}, 20});
  ASSERT_TRUE(plan.ok()) << plan.status().text();
  EXPECT_EQ(plan->cost.peers, 3U) << plan->algorithm->name;
}

TEST(Planner, LendsNothingOverTcp) {
  World world = world_of(4);
  world.shared_memory = false;
  world.layout =
      make_layout(std::vector<Place>{{.host = 0}, {.host = 1}, {.host = 2}, {.host = 3}});
  EXPECT_EQ(plan_of(world, all_gather, 64 << 10).loans, Loans::none);
}

TEST(Planner, LendsSharedMemoryInsideHostsAndRegisteredMemoryOverRdma) {
  World world = world_of(4);
  world.shared_memory = false;
  world.layout =
      make_layout(std::vector<Place>{{.host = 0}, {.host = 0}, {.host = 1}, {.host = 1}});
  EXPECT_EQ(plan_of(world, all_gather, 64 << 10).loans, Loans::shared);
  EXPECT_EQ(plan_of(world, all_gather, 64).loans, Loans::none);
  world.layout =
      make_layout(std::vector<Place>{{.host = 0}, {.host = 1}, {.host = 2}, {.host = 3}});
  world.view.path = world.view.between = &CostConstants::rdma;
  EXPECT_EQ(plan_of(world, all_gather, 64 << 10).loans, Loans::shared);
}

TEST(Planner, LetsTheRootSendToAllWhereTheyFetch) {
  // All fetch at once what one rank lends, until too many readers of its pages hinder each other.
  const auto linear_over_best = [](Rank ranks) {
    const auto list = candidates(world_of(ranks), {broadcast, ranks, 0}, size_class(64 << 10));
    double best = list.front().prediction.us, linear = 0;
    for (const Candidate& of : list) {
      best = std::min(best, of.prediction.us);
      if (of.plan.algorithm->name == "linear") linear = of.prediction.us;
    }
    return linear / best;
  };
  EXPECT_EQ(linear_over_best(4), 1);
  EXPECT_GT(linear_over_best(64), 1.5);
  EXPECT_NE(plan_of(world_of(64), broadcast, 64 << 10).algorithm->name, "linear");
  EXPECT_NE(plan_of(world_of(4), broadcast, 16 << 20).algorithm->name, "linear");
}

TEST(Planner, ExplainsItsChoiceAndNamesTheOthers) {
  World world = world_of(4);
  const Plan plan = plan_of(world, broadcast, 1 << 16);
  const std::string text = explain(world, plan, size_class(1 << 16));
  EXPECT_TRUE(contains(
      text, "broadcast of up to 65536 bytes over 4 ranks: " + std::string(plan.algorithm->name)))
      << text;
  EXPECT_TRUE(contains(text, plan.algorithm->sentence)) << text;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(!algorithm.supports(plan.spec, Layout::flat(plan.spec.ranks)) ||
                contains(text, algorithm.name))
        << text;
  }
  EXPECT_FALSE(contains(text, "forced"));
  const World alone = world_of(1);
  const Plan copy = plan_of(alone, broadcast, 8);
  EXPECT_TRUE(contains(explain(alone, copy, 3), "over 1 rank: local, 1 lane,"));
  world.algorithm = "linear";
  const std::string forced = explain(world, plan_of(world, broadcast, 8), 3);
  EXPECT_TRUE(contains(forced, "linear") && contains(forced, "forced by COLL_ALGORITHM"));
}

}  // namespace
}  // namespace coll
