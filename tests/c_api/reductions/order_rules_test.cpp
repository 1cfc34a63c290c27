// SPDX-License-Identifier: Apache-2.0
// Who decides the order of sums, what it binds, and what is refused.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "c_api/reductions/order_calls.hpp"

namespace collectives::testing {
namespace {

/// Programs built before there was an order gave 0 in its place.
static_assert(sizeof(coll_order_t) == 4 && offsetof(coll_config_t, deadline_s) == 16);
static_assert(COLL_ORDER_DEFAULT == 0);

/// A sum of three ranks is the tree's.
void check_sum(coll_comm_t comm, int rank) {
  const Inputs<float> inputs = drawn<float>(3, 1000);
  std::vector<float> out(1000);
  EXPECT_TRUE(ok(coll_all_reduce(inputs[static_cast<std::size_t>(rank)].data(), out.data(),
                                 out.size(), COLL_FLOAT32, COLL_SUM, comm, nullptr)));
  EXPECT_TRUE(same_bits<float>(out, tree(inputs)));
}

/// What is exact in any order keeps all algorithms.
TEST(OrderRules, BindsOnlyWhatDependsOnIt) {
  run_ranks(
      3,
      [](coll_comm_t comm, int /*rank*/) {
        const std::string words = "in the order of the tree";
        const auto has = [&](const std::string& text) { return text.find(words) != text.npos; };
        EXPECT_TRUE(has(explained(comm, asked(COLL_ALL_REDUCE, 1 << 20, COLL_FLOAT32))));
        EXPECT_TRUE(has(explained(comm, asked(COLL_REDUCE_SCATTER, 1 << 20, COLL_COMPLEX128))));
        EXPECT_FALSE(has(explained(comm, asked(COLL_ALL_REDUCE, 1 << 20, COLL_INT64))));
        coll_call_t call = asked(COLL_ALL_REDUCE, 1 << 20, COLL_FLOAT32);
        call.op = COLL_MAX;
        EXPECT_FALSE(has(explained(comm, call)));
        call.op = COLL_AVG;
        EXPECT_TRUE(has(explained(comm, call)));
        EXPECT_FALSE(has(explained(comm, asked(COLL_BROADCAST, 1 << 20, COLL_FLOAT32))));
      },
      in_tree_order());
}

TEST(OrderRules, AnAlgorithmThatCannotKeepItIsRefusedWhereItIsNamedForTheOperation) {
  run_ranks(
      3,
      [](coll_comm_t comm, int /*rank*/) {
        std::vector<float> data(10);
        EXPECT_EQ(coll_all_reduce(data.data(), data.data(), data.size(), COLL_FLOAT32, COLL_SUM,
                                  comm, nullptr),
                  COLL_UNSUPPORTED);
        EXPECT_NE(std::strstr(coll_last_error(), "in the order that COLL_ORDER demands"), nullptr)
            << coll_last_error();
      },
      in_tree_order(nullptr, "all_reduce=ring"));
  run_ranks(
      3, [](coll_comm_t comm, int rank) { check_sum(comm, rank); }, in_tree_order(nullptr, "ring"));
}

/// One that is there for the order can do without.
TEST(OrderRules, AnOrderedAlgorithmDoesAllOfItsOperation) {
  for (const int ranks : {2, 3}) {
    run_ranks(
        ranks,
        [&](coll_comm_t comm, int /*rank*/) {
          Values in(100, 1), out(100);
          EXPECT_TRUE(ok(all_reduce(in, out, comm)));
          EXPECT_EQ(out, Values(100, ranks));
        },
        in_tree_order(nullptr, "all_reduce=one_shot_ordered"));
  }
}

/// Rank 0's counts, and communicators made from it have it too.
TEST(OrderRules, IsRankZerosAndIsInherited) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      coll_config_t config = in_tree_order();
      if (rank != 0) config.order = COLL_ORDER_ANY;
      coll_comm_t comm = join(id, 3, rank, config);
      ASSERT_NE(comm, nullptr);
      check_sum(comm, rank);
      coll_comm_t copy = nullptr;
      ASSERT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &copy)));
      check_sum(copy, rank);
      EXPECT_TRUE(ok(coll_comm_destroy(copy)));
      // Also where rank 0 is not among them: the others asked for another order.
      coll_comm_t others = nullptr;
      ASSERT_TRUE(ok(coll_comm_split(comm, rank == 0 ? COLL_SPLIT_NONE : 0, 0, nullptr, &others)));
      if (others != nullptr) {
        const std::string text = explained(others, asked(COLL_ALL_REDUCE, 1 << 20, COLL_FLOAT32));
        EXPECT_NE(text.find("in the order of the tree"), text.npos) << text;
        EXPECT_TRUE(ok(coll_comm_destroy(others)));
      }
      EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(OrderRules, UnknownIsRefused) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  coll_config_t config = COLL_CONFIG_INIT;
  config.order = static_cast<coll_order_t>(7);
  coll_comm_t comm = nullptr;
  EXPECT_EQ(coll_comm_init_rank(&comm, 1, &id, 0, &config), COLL_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(coll_last_error(), "unknown order 7"), nullptr) << coll_last_error();
}

}  // namespace
}  // namespace collectives::testing
