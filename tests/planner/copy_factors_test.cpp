// SPDX-License-Identifier: Apache-2.0
// What the planner makes of how much copies cost a machine.
#include <gtest/gtest.h>

#include <limits>

#include "worlds.hpp"

namespace coll {
namespace {

TEST(CopyFactors, AreWholePowersOfTwo) {
  const auto factors = [](double copy, double fetch) {
    return copy_factors(usual_costs(), {.copy_us_per_byte = copy, .fetch_us_per_byte = fetch});
  };
  const double copy = usual_costs().probe.copy_us_per_byte;
  const double fetch = usual_costs().probe.fetch_us_per_byte;
  EXPECT_EQ(factors(0, 0), (CopyFactors{0, 0})) << "nothing is known";
  EXPECT_EQ(factors(copy, fetch), (CopyFactors{0, 0}));
  // What is measured of one machine differs a little each time.
  EXPECT_EQ(factors(1.3 * copy, fetch / 1.3), (CopyFactors{0, 0}));
  EXPECT_EQ(factors(0.6 * copy, 1.8 * fetch), (CopyFactors{-1, 1}));
  // The borders lie at the geometric means, those of fetches at a quarter of the way.
  EXPECT_EQ(factors(1.414 * copy, 2.378 * fetch), (CopyFactors{0, 1}));
  EXPECT_EQ(factors(1.415 * copy, 2.379 * fetch), (CopyFactors{1, 2}));
  EXPECT_EQ(factors(0.708 * copy, 0.594 * fetch), (CopyFactors{0, -1}));
  // A processor of AMD's family 25, model 1, 2026-11: 81 to 107 ps.
  EXPECT_EQ(factors(24e-6, 81e-6), (CopyFactors{0, 2}));
  EXPECT_EQ(factors(24e-6, 107e-6), (CopyFactors{0, 2}));
  // A processor of a family 26, 2026-11: 9 ps and 68 ps.
  EXPECT_EQ(factors(9e-6, 68e-6), (CopyFactors{-1, 1}));
  const CopyFactors extreme = factors(1e-9, std::numeric_limits<double>::infinity());
  EXPECT_EQ(extreme, (CopyFactors{CopyFactors::kLeast, CopyFactors::kMostFetch}));
  EXPECT_EQ(factors(1, 1), (CopyFactors{CopyFactors::kMostCopy, CopyFactors::kMostFetch}));
}

TEST(CopyFactors, ScaleCopiesAndFetchesWithinAHostAndNothingElse) {
  const CostConstants& usual = usual_costs();
  EXPECT_EQ(scaled(usual, {}), usual);
  CostConstants expected = usual;
  expected.copy.us_per_byte *= 4;
  expected.memory.send_us_per_byte *= 4;
  expected.memory.receive_us_per_byte *= 4;
  expected.memory.fetch_us_per_byte /= 2;
  expected.memory.fetch_cold_us_per_byte *= 4;
  EXPECT_EQ(scaled(usual, {2, -1}), expected);
}

/// What a call of an operation is planned as on a machine of these factors.
Plan planned(Rank ranks, Collective collective, std::uint64_t bytes, CopyFactors factors,
             double per_core = 1) {
  World world = world_of(ranks);
  world.view.factors = factors;
  world.view.ranks_per_core = per_core;
  return plan_of(world, collective, bytes);
}

TEST(CopyFactors, WhatIsDearToFetchPassesThroughSlots) {
  using enum Collective;
  for (const Collective collective : {broadcast, scatter, send, recv}) {
    for (const std::uint64_t bytes : {128ULL << 10, 256ULL << 10, 1ULL << 20}) {
      const auto loans = [&](CopyFactors factors) {
        return planned(2, collective, bytes, factors).loans;
      };
      EXPECT_EQ(loans({}), Loans::all) << name_of(collective) << ' ' << bytes;
      EXPECT_EQ(loans({-1, 1}), Loans::shared) << name_of(collective) << ' ' << bytes;
      EXPECT_EQ(loans({0, 2}), Loans::shared) << name_of(collective) << ' ' << bytes;
      EXPECT_EQ(loans({CopyFactors::kMostCopy, CopyFactors::kMostFetch}), Loans::shared)
          << name_of(collective) << ' ' << bytes;
      EXPECT_EQ(loans({1, 1}), Loans::all) << name_of(collective) << ' ' << bytes;
    }
  }
}

/// Rounded factors of one process at the start decide nothing that messages show.
TEST(CopyFactors, DoNotDecideWhatTwoRanksFindOut) {
  using enum Collective;
  for (const CopyFactors factors : {CopyFactors{}, {-1, 1}, {0, 2}, {0, 3}, {1, 0}}) {
    for (const std::uint64_t bytes : {8ULL << 10, 64ULL << 10}) {
      for (const Collective collective : {broadcast, scatter, gather, send, recv})
        EXPECT_EQ(planned(2, collective, bytes, factors).loans, Loans::if_faster)
            << name_of(collective) << ' ' << bytes;
    }
    for (const Collective collective : {all_gather, all_to_all}) {
      for (const std::uint64_t bytes : {1ULL << 10, 64ULL << 10, 1ULL << 20, 4ULL << 20}) {
        EXPECT_EQ(planned(2, collective, bytes, factors).loans, Loans::if_faster)
            << name_of(collective) << ' ' << bytes;
        EXPECT_NE(planned(2, collective, bytes, factors, 2).loans, Loans::if_faster)
            << "on one core";
        EXPECT_NE(planned(3, collective, bytes, factors).loans, Loans::if_faster);
      }
    }
  }
}

/// They are predicted to take what the protocol takes that the factors speak for.
TEST(CopyFactors, WhatTwoRanksFindOutIsPredicted) {
  const auto us = [](CopyFactors factors) {
    return planned(2, Collective::all_gather, 1 << 20, factors).predicted_us;
  };
  EXPECT_DOUBLE_EQ(us({0, 3}), us({0, 4})) << "through slots";
  EXPECT_LT(us({0, 0}), us({0, 4})) << "fetched";
  EXPECT_LT(us({-1, 4}), us({0, 4}));
}

/// A kernel that is slow at fetching reads memory as fast as another: beyond the caches it matters
/// less how slow it is. Measured on a Xeon, {0, 1}, all_gather: 16 MiB take 1.9 ms fetched and 2.3
/// through slots, 32 MiB 5.8 and 6.5.
TEST(CopyFactors, AreNotOfMemory) {
  for (const Collective collective : {Collective::all_gather, Collective::all_to_all}) {
    for (const std::uint64_t bytes : {8ULL << 20, 16ULL << 20, 32ULL << 20}) {
      EXPECT_EQ(planned(2, collective, bytes, {0, 1}).loans, Loans::all) << name_of(collective);
      EXPECT_EQ(planned(2, collective, bytes, {0, 3}).loans, Loans::shared) << name_of(collective);
    }
  }
  for (const std::uint64_t bytes : {2ULL << 20, 16ULL << 20}) {
    EXPECT_EQ(planned(2, Collective::all_reduce, bytes, {0, 0}).loans, Loans::all) << bytes;
    EXPECT_EQ(planned(2, Collective::all_reduce, bytes, {0, 1}).loans, Loans::shared) << bytes;
  }
  // One way, two sides make the copies. Of more ranks one side would make them all.
  EXPECT_EQ(planned(2, Collective::broadcast, 16 << 20, {0, 1}).loans, Loans::all);
  EXPECT_EQ(planned(2, Collective::broadcast, 16 << 20, {0, 2}).loans, Loans::shared);
  EXPECT_EQ(planned(3, Collective::broadcast, 16 << 20, {0, 1}).loans, Loans::shared);
  EXPECT_EQ(planned(2, Collective::broadcast, 16 << 20, {0, 1}, 2).loans, Loans::shared);
}

TEST(CopyFactors, ScaleWhatIsPredictedOfCopies) {
  for (const Rank ranks : {2, 8}) {
    const double usual = planned(ranks, Collective::all_gather, 32 << 20, {}).predicted_us;
    EXPECT_NEAR(planned(ranks, Collective::all_gather, 32 << 20, {1, 1}).predicted_us / usual, 2,
                0.1);
  }
}

/// Bits depend on the plan, and a measurement may differ from one start to the next.
TEST(CopyFactors, DecideNothingThatCombines) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    for (const Rank ranks : {2, 3, 8, 33}) {
      for (const double per_core : {1.0, 4.0}) {
        for (std::uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 64) {
          // Each element of these sums is of one operation in any plan: they may be cut otherwise.
          const bool of_one = collective == Collective::all_reduce && ranks == 2 && per_core == 1;
          const bool may_fetch = of_one && bytes > 1 << 20;
          const Plan usual = planned(ranks, collective, bytes, {}, per_core);
          for (const CopyFactors factors : {CopyFactors{-1, 1}, {2, -1}}) {
            const Plan plan = planned(ranks, collective, bytes, factors, per_core);
            EXPECT_EQ(plan.algorithm, usual.algorithm) << name_of(collective) << ' ' << bytes;
            if (may_fetch) continue;
            EXPECT_EQ(plan.digest(), usual.digest()) << name_of(collective) << ' ' << bytes;
            EXPECT_EQ(plan.loans, usual.loans) << name_of(collective) << ' ' << bytes;
            EXPECT_EQ(plan.predicted_us, usual.predicted_us) << name_of(collective) << ' ' << bytes;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace coll
