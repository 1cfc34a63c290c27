// SPDX-License-Identifier: Apache-2.0
// Seconds that become deadlines.
#include "sys/clock.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace coll {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(After, CountsSeconds) {
  const Deadline start = Clock::now();
  EXPECT_EQ(after(0, start), start);
  EXPECT_EQ(after(2.5, start), start + std::chrono::milliseconds(2500));
  EXPECT_EQ(after(1e-9, start), start + nanoseconds(1));
  EXPECT_GE(after(1), start + seconds(1));
}

TEST(After, IsNotBeforeTheStart) {
  const Deadline start = Clock::now();
  for (const double negative : {-0.0, -1e-300, -1.0, -1e300, -kInfinity}) {
    EXPECT_EQ(after(negative, start), start) << negative;
  }
}

// What overflows the clock's ticks must not expire at once, nor must what is added to it.
TEST(After, WaitsThirtyYearsForWhatTheClockCannotCount) {
  const Deadline start = Clock::now();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double endless : {1e9, 1e10, 1e12, 1e18, 1e300, kInfinity, nan, -nan}) {
    const Deadline deadline = after(endless, start);
    EXPECT_EQ(deadline, start + seconds(1'000'000'000)) << endless;
    EXPECT_GT(deadline + seconds(1'000'000'000), deadline) << endless;
    EXPECT_EQ(poll_timeout(deadline), 1'000'000) << endless;
  }
}

}  // namespace
}  // namespace coll
