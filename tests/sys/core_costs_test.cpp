// SPDX-License-Identifier: Apache-2.0
// What is measured of cores and of loopback lies where a machine can be.
#include "sys/machine/core_costs.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "sys/net/loopback_costs.hpp"

namespace coll {
namespace {

TEST(CoreCosts, AreMeasuredOnce) {
  const CoreCosts& costs = core_costs();
  // 1,000 multiplications one after another, at 0.1 to 30 GHz.
  EXPECT_GT(costs.chain_us, 0.1);
  EXPECT_LT(costs.chain_us, 1000);
  EXPECT_EQ(&core_costs(), &costs);
  // Either both are known or none; light takes 1 ns for a foot.
  EXPECT_EQ(costs.line_us > 0, costs.pass_us_per_byte > 0);
  if (costs.line_us > 0) {
    EXPECT_GT(costs.line_us, 1e-3);
    EXPECT_LT(costs.line_us, 100);
    EXPECT_GT(costs.pass_us_per_byte, 1e-6);
    EXPECT_LT(costs.pass_us_per_byte, 1);
  }
}

/// A process of one core measures nothing between two. Tests with such names run before all others,
/// so nothing is measured yet.
TEST(CoreCostsDeathTest, KeepToTheCoresOfTheProcess) {
  EXPECT_EXIT(
      {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) _exit(2);
        const CoreCosts& costs = core_costs();
        _exit(costs.chain_us > 0 && costs.line_us == 0 && costs.pass_us_per_byte == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

/// What threads that ask together learn is what one of them measured, not that another one was
/// measuring. Other programs may disturb: then nothing is known between cores, and it tries again.
TEST(CoreCostsDeathTest, OfThreadsThatAskTogetherAreMeasured) {
  constexpr int kKnown = 0, kUnknown = 1, kDifferent = 2, kTries = 20;
  const auto of_threads = [](int count) {
    return testing::in_child([count] {
      std::vector<const CoreCosts*> seen(static_cast<std::size_t>(count));
      std::barrier together(count);
      std::vector<std::thread> threads;
      for (const CoreCosts*& each : seen) {
        threads.emplace_back([&] {
          together.arrive_and_wait();
          each = &core_costs();
        });
      }
      for (std::thread& thread : threads) thread.join();
      if (std::ranges::count(seen, seen[0]) != count) return kDifferent;
      return seen[0]->line_us > 0 ? kKnown : kUnknown;
    });
  };
  int known_alone = 0;
  for (int i = 0; i < kTries; ++i) {
    if (of_threads(1) == kKnown) ++known_alone;
    const int together = of_threads(4);
    ASSERT_TRUE(together == kKnown || together == kUnknown) << together;
    if (together == kKnown) return;
  }
  if (known_alone < kTries - 2) GTEST_SKIP() << "little can be measured between cores here and now";
  FAIL() << "known to a single thread " << known_alone << " times, to threads together never";
}

TEST(LoopbackCosts, AreThoseOfASystemCall) {
  const double us = loopback_send_us();
  EXPECT_EQ(loopback_send_us(), us);
  if (us == 0) GTEST_SKIP() << "there is no loopback";
  EXPECT_GT(us, 0.05);
  EXPECT_LT(us, 10'000);
}

}  // namespace
}  // namespace coll
