// SPDX-License-Identifier: Apache-2.0
// Which messages a plan has lent, and fetched.
#include <gtest/gtest.h>

#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;

TEST(Planner, HasLongMessagesFetchedWhereThatSavesWork) {
  for (const Rank ranks : {2, 4, 8}) {
    const World world = world_of(ranks);
    const auto loans = [&](Collective collective, std::uint64_t bytes) {
      return plan_of(world, collective, bytes).loans;
    };
    // Two ranks find out from their messages, where these are not cut, or are exchanged.
    const Loans copied = ranks == 2 ? Loans::if_faster : Loans::all;
    EXPECT_EQ(loans(all_gather, 64 << 10), copied);
    EXPECT_EQ(loans(all_to_all, 4 << 20), copied);
    EXPECT_EQ(loans(broadcast, 64 << 10), copied);
    EXPECT_EQ(loans(broadcast, 128 << 10), Loans::all);
    EXPECT_EQ(loans(all_to_all, 8 << 20), Loans::all);
    // Memory or the one receiver would be the limit, or what is fetched would still be combined.
    EXPECT_EQ(loans(all_gather, 1 << 30), Loans::shared);
    EXPECT_EQ(loans(broadcast, 64 << 20), ranks == 2 ? Loans::all : Loans::shared)
        << "of two ranks, both copy";
    EXPECT_EQ(loans(reduce_scatter, 4 << 20), Loans::shared);
    // While the caches hold all, two ranks try both. Beyond them they fetch an all_reduce's
    // results.
    const Loans combined = ranks == 2 ? Loans::if_faster : Loans::shared;
    for (const std::uint64_t bytes : {64ULL << 10, 1ULL << 20}) {
      EXPECT_EQ(loans(all_reduce, bytes), combined) << bytes;
      EXPECT_EQ(loans(reduce, bytes), Loans::shared) << bytes;
    }
    for (const std::uint64_t bytes : {64ULL << 10, 1ULL << 20, 2ULL << 20}) {
      EXPECT_EQ(loans(reduce_scatter, bytes), combined) << bytes;
    }
    for (const std::uint64_t bytes : {2ULL << 20, 16ULL << 20, 1ULL << 30}) {
      EXPECT_EQ(loans(all_reduce, bytes), ranks == 2 ? Loans::all : Loans::shared) << bytes;
    }
    for (const Collective collective : {all_gather, all_reduce, broadcast}) {
      EXPECT_EQ(loans(collective, 8), Loans::none) << name_of(collective);
    }
  }
}

/// Finer cuts would cost them time.
TEST(Planner, CutsSumsThatMayBeFetchedOfTwoRanksCoarsely) {
  for (const Rank ranks : {2, 4}) {
    const World world = world_of(ranks);
    for (const auto& [collective, bytes] :
         {std::pair{all_reduce, 256U << 10}, {all_reduce, 1U << 20}, {reduce_scatter, 1U << 20}}) {
      const Plan plan = plan_of(world, collective, bytes);
      const bool coarse = ranks == 2;
      EXPECT_EQ(plan.lanes, coarse ? 1U : 2U) << name_of(collective) << ' ' << bytes;
      EXPECT_EQ(plan.slice_bytes, (coarse ? 128U : 64U) << 10)
          << name_of(collective) << ' ' << bytes;
    }
  }
}

/// A rank that also receives waits anyway. A rank that only sends would wait for the loan only.
TEST(Planner, LendsShortMessagesThatAreExchanged) {
  const World world = world_of(2);
  const auto lends = [&](Collective collective, std::uint64_t bytes) {
    return plan_of(world, collective, bytes).loans != Loans::none;
  };
  for (const Collective collective : {broadcast, reduce, gather, scatter}) {
    EXPECT_FALSE(lends(collective, 4096)) << name_of(collective);
    EXPECT_TRUE(lends(collective, 8192)) << name_of(collective);
  }
  for (const Collective collective : {all_reduce, all_gather, reduce_scatter, all_to_all, send}) {
    EXPECT_FALSE(lends(collective, 512)) << name_of(collective);
    EXPECT_TRUE(lends(collective, 1024)) << name_of(collective);
  }
}

/// Costs that ranks have measured are rounded, by up to sqrt(2).
TEST(Planner, LeavesTheRulesProtocolOnlyIfTheOtherIsFarFaster) {
  World world = world_of(4);
  world.view.ranks_per_core = 2;
  for (const std::int32_t fetch : {0, 1}) {
    world.view.factors.fetch = fetch;
    EXPECT_EQ(plan_of(world, all_to_all, 256 << 10).loans, Loans::all) << fetch;
  }
  world.view.factors.fetch = 3;
  EXPECT_NE(plan_of(world, all_to_all, 256 << 10).loans, Loans::all);
}

/// What another rank adds up may land in memory of coll_mem_alloc: only `two_shot` has such sums.
TEST(Planner, TakesTheFewestRoundsWhileInputsAndResultsStayInCache) {
  const World world = world_of(2);
  for (const std::uint64_t bytes : {64ULL << 10, 512ULL << 10})
    EXPECT_EQ(plan_of(world, all_reduce, bytes).algorithm->name, "one_shot") << bytes;
  EXPECT_EQ(plan_of(world, all_reduce, 1 << 20).algorithm->name, "two_shot");
}

TEST(Planner, LendsLaterWhereRanksShareCores) {
  World world = world_of(8);
  EXPECT_EQ(plan_of(world, all_gather, 8 << 10).loans, Loans::all);
  world.view.ranks_per_core = 4;
  EXPECT_EQ(plan_of(world, all_to_all, 8 << 10).loans, Loans::none);
  EXPECT_EQ(plan_of(world, all_to_all, 64 << 10).loans, Loans::all);
  EXPECT_EQ(plan_of(world, all_to_all, 64 << 20).loans, Loans::shared);
  World pair = world_of(2);
  pair.view.ranks_per_core = 2;
  EXPECT_EQ(plan_of(pair, all_reduce, 64 << 10).loans, Loans::shared);
  EXPECT_EQ(plan_of(pair, all_reduce, 16 << 20).loans, Loans::shared);
  EXPECT_EQ(plan_of(pair, reduce_scatter, 64 << 10).loans, Loans::shared);
  // Of unequal blocks one may be all.
  CollectiveSpec unequal{reduce_scatter, 2, 0};
  unequal.unequal = true;
  const World two = world_of(2);
  EXPECT_EQ(make_plan(two, {unequal, size_class(64 << 10)})->loans, Loans::shared);
  // What all get is rather copied once for all of them.
  EXPECT_EQ(plan_of(world, all_gather, 64 << 10).loans, Loans::shared);
  EXPECT_EQ(plan_of(world, broadcast, 64 << 10).loans, Loans::shared);
}

}  // namespace
}  // namespace coll
