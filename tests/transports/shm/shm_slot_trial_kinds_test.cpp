// SPDX-License-Identifier: Apache-2.0
// Which messages a trial of how to write slots is made by.
#include <gtest/gtest.h>

#include "slot_trials.hpp"

namespace coll::test {
namespace {

/// Where a call combines what comes and passes it on, that takes its sender longer, and its
/// receiver reads it otherwise. A way that got more of these would seem slow.
TEST(ShmSlotTrial, ComparesWaysByMessagesThatAreOnlyCopied) {
  const Times copied{{1600, 400, 900}, {900, 600, 900}};
  for (const std::size_t run : {1U, 2U, 5U, 16U, 200U}) {
    for (std::size_t before = 0; before < 2 * run; before += (run + 2) / 3) {
      ShmSlotTrial trial = new_trial();
      ShmReadTimes read{};
      for (std::size_t message = before; !trial.has_settled() && message < 10'000; ++message) {
        const bool passed_on = message / run % 2 == 1;
        const auto way = static_cast<std::size_t>(trial.way());
        const ShmTimed timed = trial.timed(passed_on);
        EXPECT_TRUE(!passed_on || timed.trial == 0) << "its receiver's time would count";
        trial.wrote(kBytes, passed_on ? 4000 - copied.write[way] : copied.write[way], read,
                    {.passed_on = passed_on});
        if (timed.trial != 0) read.add(timed, kBytes, copied.read[way]);
      }
      EXPECT_TRUE(trial.has_settled());
      EXPECT_EQ(trial.way(), ShmWay::spread) << run << " in a row, " << before;
    }
  }
}

/// If there are no others.
TEST(ShmSlotTrial, ComparesWaysByWhatIsPassedOnIfAllIs) {
  ShmSlotTrial trial = new_trial();
  ShmReadTimes read{};
  const Times times{{1600, 400, 900}, {900, 600, 900}};
  for (int message = 0; !trial.has_settled() && message < 10'000; ++message) {
    const auto way = static_cast<std::size_t>(trial.way());
    const ShmTimed timed = trial.timed(true);
    trial.wrote(kBytes, times.write[way], read, {.passed_on = true});
    if (timed.trial != 0) read.add(timed, kBytes, times.read[way]);
  }
  EXPECT_TRUE(trial.has_settled());
  EXPECT_EQ(trial.way(), ShmWay::spread);
}

/// A choice stays if what is passed on takes other times than the copies that it was made by.
TEST(ShmSlotTrial, WatchesOnlyWhatIsCopied) {
  const Times times{{1600, 400, 600}, {400, 400, 900}};
  ShmSlotTrial trial = new_trial();
  ASSERT_EQ(chosen(trial, times), ShmWay::spread);
  ShmReadTimes none;
  std::size_t bytes = 0;
  for (int message = 0; trial.has_settled(); ++message, bytes += kBytes) {
    const bool passed_on = message / 7 % 2 == 1;
    trial.wrote(kBytes, (passed_on ? 5 : 1) * times.write[1], none, {.passed_on = passed_on});
  }
  EXPECT_GE(bytes, std::size_t{16} << 20);
}

/// Calls that repeat have a rhythm: of 4 messages that are copied and 4 that are passed on, every
/// 16th is of one kind.
TEST(ShmSlotTrial, WatchesSomeOfEachRhythm) {
  const Times near{{1600, 400, 600}, {400, 400, 900}};
  for (unsigned first = 0; first < 8; ++first) {
    ShmSlotTrial trial = new_trial();
    for (int confirmed = 0; confirmed < 4; ++confirmed) {
      ASSERT_EQ(chosen(trial, near), ShmWay::spread);
      if (confirmed < 3) bytes_until_next(trial, near.write[1]);
    }
    ShmReadTimes none;
    std::size_t bytes = 0;
    for (unsigned message = first; trial.has_settled(); ++message, bytes += kBytes)
      trial.wrote(kBytes, 2600, none, {.passed_on = message % 8 < 4});
    EXPECT_LT(bytes, std::size_t{17} << 20) << "cores have moved";
  }
}

}  // namespace
}  // namespace coll::test
