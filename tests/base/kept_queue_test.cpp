// SPDX-License-Identifier: Apache-2.0
// The queue that keeps its memory keeps the order, too.
#include "base/kept_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "test_seed.hpp"

namespace coll::test {
namespace {

TEST(KeptQueues, AreInOrderHoweverTheyGrow) {
  std::mt19937_64 random(test_seed());
  KeptQueue<int> queue;
  std::deque<int> expected;
  int next = 0;
  for (int turn = 0; turn < 10000; ++turn) {
    // At first it grows; later it is emptied now and then, anywhere in its room.
    const bool pushes = random() % 100 < (turn / 500 % 2 == 0 ? 55U : 45U);
    if (pushes) {
      queue.push(next);
      expected.push_back(next++);
    } else if (!expected.empty()) {
      ASSERT_EQ(queue.front(), expected.front());
      queue.pop();
      expected.pop_front();
    }
    ASSERT_EQ(queue.size(), expected.size());
    ASSERT_EQ(queue.empty(), expected.empty());
  }
  queue.clear();
  EXPECT_TRUE(queue.empty());
  queue.push(7);
  EXPECT_EQ(queue.front(), 7);
}

}  // namespace
}  // namespace coll::test
