// SPDX-License-Identifier: Apache-2.0
// Sums of micro-batches follow the balanced tree, on one rank and over ranks, in both ways to deal
// micro-batches out.
#include "layout/leaf_tree.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/deal.hpp"

namespace training {
namespace leaf_tree_test {

/// Sums are written down in place of computed: "(a+b)".
std::string plus(const std::string& a, const std::string& b) {
  return "(" + a + "+" + b + ")";
}

/// What the buffers of BucketedGradients and Zero2Gradients do with one leaf after another.
std::string sum_in_levels(const std::vector<std::string>& leaves) {
  std::vector<std::string> levels(levels_of(leaves.size()));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    std::size_t level = level_of(i);
    levels.at(level) = leaves[i];
    for (std::size_t j = additions_of(i, leaves.size()); j > 0; --j, --level)
      levels.at(level - 1) = plus(levels.at(level - 1), levels.at(level));
  }
  return levels.at(0);
}

/// The balanced tree: the left part is the largest power of two that is less than all.
std::string balanced(const std::vector<std::string>& leaves) {
  if (leaves.size() == 1) return leaves[0];
  const auto left = static_cast<std::ptrdiff_t>(std::bit_floor(leaves.size() - 1));
  return plus(balanced({leaves.begin(), leaves.begin() + left}),
              balanced({leaves.begin() + left, leaves.end()}));
}

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> leaves;
  for (std::size_t i = 0; i < count; ++i) leaves.push_back(std::to_string(i));
  return leaves;
}

TEST(LeafTree, OneRankSumsTheBalancedTree) {
  for (std::size_t count = 1; count <= 64; ++count)
    EXPECT_EQ(sum_in_levels(names(count)), balanced(names(count)));
}

TEST(LeafTree, BlocksOverRanksGiveTheSameTree) {
  for (std::size_t count = 1; count <= 64; count *= 2) {
    for (std::size_t ranks = 1; ranks <= count; ranks *= 2) {
      std::vector<std::string> sums;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<std::string> own;
        for (const auto& leaf : deal_in_blocks(count, rank, ranks))
          own.push_back(std::to_string(leaf.value()));
        sums.push_back(sum_in_levels(own));
      }
      EXPECT_EQ(balanced(sums), balanced(names(count))) << count << " on " << ranks;
    }
  }
}

TEST(LeafTree, TurnsOverRanksGiveTheSameTree) {
  for (std::size_t count = 1; count <= 64; count *= 2) {
    for (std::size_t ranks = 1; ranks <= count; ranks *= 2) {
      std::vector<std::string> turns;
      for (std::size_t turn = 0; turn < count / ranks; ++turn) {
        std::vector<std::string> of_ranks;
        for (std::size_t rank = 0; rank < ranks; ++rank)
          of_ranks.push_back(std::to_string(deal_in_turns(count, rank, ranks).at(turn).value()));
        turns.push_back(balanced(of_ranks));
      }
      EXPECT_EQ(sum_in_levels(turns), balanced(names(count))) << count << " on " << ranks;
    }
  }
}

TEST(Deal, EveryMicroBatchHasOneRank) {
  for (const std::size_t leaves : {1U, 2U, 3U, 7U, 8U, 12U, 31U}) {
    for (const std::size_t ranks : {1U, 2U, 3U, 5U, 8U}) {
      for (const auto deal : {deal_in_blocks, deal_in_turns}) {
        std::vector<int> dealt(leaves);
        for (std::size_t rank = 0; rank < ranks; ++rank)
          for (const auto& leaf : deal(leaves, rank, ranks))
            if (leaf) ++dealt.at(*leaf);
        EXPECT_EQ(dealt, std::vector<int>(leaves, 1)) << leaves << " on " << ranks;
      }
    }
  }
}

TEST(Deal, InTurnsAllRanksHaveEquallyManyAndOnlyTheLastMayBeIdle) {
  for (const std::size_t leaves : {1U, 3U, 8U, 10U}) {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Turns turns = deal_in_turns(leaves, rank, ranks);
        ASSERT_EQ(turns.size(), (leaves + ranks - 1) / ranks);
        for (std::size_t i = 0; i + 1 < turns.size(); ++i) EXPECT_TRUE(turns[i].has_value());
      }
    }
  }
}

TEST(Deal, InBlocksRanksDifferByOneAtMost) {
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::size_t count = deal_in_blocks(10, rank, 3).size();
    EXPECT_TRUE(count == 3 || count == 4);
  }
}

}  // namespace leaf_tree_test
}  // namespace training
