// SPDX-License-Identifier: Apache-2.0
// What coll-perf's callers compute is really computed.
#include "coll_perf/coll_perf_compute.hpp"

#include <gtest/gtest.h>

namespace perf {
namespace {

TEST(Grind, TakesEveryStep) {
  EXPECT_EQ(grind(7, 0), 7U);
  EXPECT_EQ(grind(1, 1), 7806831264735756412U);
  EXPECT_EQ(grind(grind(5, 1000), 234), grind(5, 1234));
}

// In processor time, which other programs do not stretch; a core's speed varies less than fourfold.
TEST(Computation, WorkTakesTheTimeOfACore) {
  Computation work(Compute::work);
  work.last(0.05);
  const double before = process_cpu();
  work.run();
  const double took = process_cpu() - before;
  EXPECT_GT(took, 0.0125);
  EXPECT_LT(took, 0.2);
}

TEST(Computation, SleepTakesTimeButNoCore) {
  Computation sleep(Compute::sleep);
  sleep.last(0.05);
  const double cpu_before = process_cpu();
  const double before = now();
  sleep.run();
  EXPECT_GE(now() - before, 0.05);
  EXPECT_LT(process_cpu() - cpu_before, 0.0125);
}

}  // namespace
}  // namespace perf
