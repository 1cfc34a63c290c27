// SPDX-License-Identifier: Apache-2.0
// Which messages a trial of how to write slots is made by.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "slot_trials.hpp"
#include "test_seed.hpp"
#include "transport_backend.hpp"
#include "transports/shm/shm_transport.hpp"

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
    const bool passed_on = message / 128 % 2 == 1;
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

/// A receiver that passes on some messages says nothing of how long others take to read.
TEST(ShmSlotTrial, WritingDecidesIfTheReceiverPassesOn) {
  const Times slow_to_read{{400, 300, 800}, {500, 900, 100}};  // together few slots are best
  for (const unsigned part : {0U, 1U, 2U, 3U}) {  // of the messages in one way, in thirds
    ShmSlotTrial trial = new_trial();
    ShmReadTimes read{};
    for (unsigned message = 0; !trial.has_settled() && message < 5000; ++message) {
      const auto way = static_cast<std::size_t>(trial.way());
      const ShmTimed timed = trial.timed();
      trial.wrote(kBytes, slow_to_read.write[way], read);
      const bool passed_on = trial.way() == ShmWay::streamed && message % 3 < part;
      if (timed.trial != 0) read.add(timed, kBytes, passed_on ? 0 : slow_to_read.read[way]);
    }
    EXPECT_EQ(trial.way(), part == 0 ? ShmWay::few : ShmWay::spread) << part;
  }
}

/// Times differ a little from trial to trial.
TEST(ShmSlotTrial, KeepsToItsChoiceWhereOthersTakeAsLong) {
  std::mt19937_64 random(test_seed());
  for (const ShmWay first : {ShmWay::few, ShmWay::spread}) {
    ShmSlotTrial trial = new_trial();
    const auto time = [&] { return 9600 + random() % 400; };
    const bool few = first == ShmWay::few;
    ASSERT_EQ(chosen(trial, {{few ? 1000U : 9000U, 4000, 9000}, {1000, 1000, 9000}}), first);
    for (int again = 0; again < 20; ++again) {
      bytes_until_next(trial, 100'000);
      EXPECT_EQ(chosen(trial, {{time(), time(), time()}, {time(), time(), time()}}), first);
    }
  }
}

/// A connection knows what it passes on: a message that it copies as it comes. One in 200 it sends
/// of its own accord, too seldom for a trial to get on.
TEST(ShmSlotTrial, ConnectionsKnowWhatTheyPassOn) {
  ShmSlotTrial few = new_trial();
  ASSERT_EQ(chosen(few, {{300, 900, 700}, {300, 400, 900}}), ShmWay::few);
  const Backend shm{.name = "shm", .make = make_shm_transport};
  constexpr std::size_t kLength = 64 << 10, kUntilTrial = (std::size_t{16} << 20) / kLength;
  Pair pair(shm, kLength);
  ASSERT_TRUE(pair.ready);
  Connection &one = *pair.ends[0], &other = *pair.ends[1];
  std::vector<std::byte> data(kLength);
  bool streamed[2] = {};
  for (std::size_t message = 0; message < kUntilTrial + 50; ++message) {
    ASSERT_TRUE(one.send(data.data(), kLength, message));
    const std::byte* came = other.peek(kLength, message);
    ASSERT_NE(came, nullptr);
    const bool own = message % 200 == 199;
    if (own) other.release();
    std::byte* place = other.acquire(kLength);
    ASSERT_NE(place, nullptr);
    std::copy_n(own ? data.data() : came, kLength, place);
    other.commit(kLength, message);
    if (!own) other.release();
    ASSERT_TRUE(one.receive(data.data(), kLength, message));
    for (const int end : {0, 1}) streamed[end] |= pair.ends[end]->is_streamed(kLength);
  }
  EXPECT_TRUE(streamed[0]) << "its trial has tried few slots";
  EXPECT_FALSE(streamed[1]) << "its trial has not";
}

}  // namespace
}  // namespace coll::test
