// SPDX-License-Identifier: Apache-2.0
// Micro-batches to ranks: all of them, once, and no rank with much more than the others.
#include "data/balance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "test_seed.hpp"

namespace training {
namespace balance_test {

using Rows = std::vector<std::size_t>;

Rows random_rows(std::mt19937_64& random, std::size_t count, std::size_t least, std::size_t most) {
  Rows rows(count);
  for (std::size_t& row : rows) row = std::uniform_int_distribution(least, most)(random);
  return rows;
}

/// The least possible largest load, by trying all assignments.
std::size_t optimum(const Rows& rows, std::size_t next, Rows& loads) {
  if (next == rows.size()) return std::ranges::max(loads);
  std::size_t best = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  for (std::size_t& load : loads) {
    load += rows[next];
    best = std::min(best, optimum(rows, next + 1, loads));
    load -= rows[next];
  }
  return best;
}

void expect_complete(const Assignment& assignment, const Rows& rows, std::size_t ranks) {
  ASSERT_EQ(assignment.batches.size(), ranks);
  Rows seen;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t load = 0;
    for (const std::size_t batch : assignment.batches[rank]) load += rows.at(batch);
    EXPECT_EQ(load, assignment.loads[rank]);
    EXPECT_TRUE(std::ranges::is_sorted(assignment.batches[rank]));
    seen.insert(seen.end(), assignment.batches[rank].begin(), assignment.batches[rank].end());
  }
  std::ranges::sort(seen);
  Rows all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(seen, all);
}

TEST(Balance, GivesEachMicroBatchToOneRankAndIsNeverWorseThanThePlainSplit) {
  std::mt19937_64 random(coll::test::test_seed());
  for (int i = 0; i < 2000; ++i) {
    const std::size_t ranks = 1 + random() % 9;
    const Rows rows = random_rows(random, random() % 40, 0, 1 + random() % 100);
    const Assignment balanced = balance(rows, ranks), plain = plain_split(rows, ranks);
    expect_complete(balanced, rows, ranks);
    expect_complete(plain, rows, ranks);
    EXPECT_LE(balanced.largest(), plain.largest());
    EXPECT_EQ(balanced.total(), std::accumulate(rows.begin(), rows.end(), std::size_t{0}));
  }
}

TEST(Balance, IsWithinGrahamsBoundOfTheOptimum) {
  std::mt19937_64 random(coll::test::test_seed() + 1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t ranks = 2 + random() % 2;
    const Rows rows = random_rows(random, 1 + random() % 8, 1, 20);
    Rows loads(ranks);
    EXPECT_LE(balance(rows, ranks).largest() * 3 * ranks,
              optimum(rows, 0, loads) * (4 * ranks - 1));
  }
}

/// The mean is a lower bound. With six micro-batches or more for each rank, none above twice
/// another, the last one given is a third of the mean at most, so that the load is within 4/3 of
/// it.
TEST(Balance, IsWithinFourThirdsOfTheMean) {
  std::mt19937_64 random(coll::test::test_seed() + 2);
  for (int i = 0; i < 200; ++i) {
    const std::size_t ranks = 1 + random() % 64;
    const Rows rows = random_rows(random, ranks * (6 + random() % 20), 500, 1000);
    EXPECT_LE(balance(rows, ranks).imbalance(), 4.0 / 3);
  }
}

TEST(Balance, IsBetterThanThePlainSplitWhereSizesAreUnequal) {
  const Rows rows = {9, 8, 7, 1, 1, 1};
  EXPECT_EQ(plain_split(rows, 2).largest(), 24U);
  EXPECT_EQ(balance(rows, 2).largest(), 15U);
  EXPECT_DOUBLE_EQ(balance(rows, 2).imbalance(), 15 / 13.5);
}

TEST(Balance, TakesThePlainSplitWhereTheRuleIsWorse) {
  const Rows rows = {3, 3, 0, 2, 2, 2};  // the rule gives 3 + 2 + 2 and 3 + 2
  EXPECT_EQ(balance(rows, 2).largest(), 6U);
  EXPECT_EQ(balance(rows, 2).batches, plain_split(rows, 2).batches);
  EXPECT_EQ(balance(Rows{3, 2, 3, 2, 2}, 2).largest(), 7U) << "in this order neither finds 6";
}

TEST(Balance, OfEqualMicroBatchesIsThePlainSplit) {
  const Rows rows(12, 5);
  EXPECT_EQ(balance(rows, 4).batches, plain_split(rows, 4).batches);
  EXPECT_EQ(balance(rows, 4).imbalance(), 1);
}

TEST(Balance, OfNothingIsBalanced) {
  EXPECT_EQ(balance({}, 3).imbalance(), 1);
  EXPECT_EQ(balance(Rows{0, 0}, 3).imbalance(), 1);
}

}  // namespace balance_test
}  // namespace training
