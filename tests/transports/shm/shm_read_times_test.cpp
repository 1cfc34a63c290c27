// SPDX-License-Identifier: Apache-2.0
// How long messages take, as receivers say, and how many of them a sender's trial asks about.
#include "transports/shm/shm_read_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "shm_memory.hpp"
#include "sys/clock.hpp"
#include "transports/shm/shm_slot_trial.hpp"

namespace coll::test {
namespace {

TEST(ShmReadTimes, AreOfOneTrial) {
  ShmReadTimes times;
  times.add({1, 2}, 1000, 50);
  times.add({1, 2}, 1000, 40);
  times.add({1, 2}, 1000, 60);
  EXPECT_FLOAT_EQ(times.least({1, 2}, 3), 0.04F);
  EXPECT_GT(times.least({1, 2}, 4), 1e9F);
  EXPECT_GT(times.least({2, 2}, 1), 1e9F);
  EXPECT_GT(times.least({1, 1}, 1), 1e9F);
  times.add({2, 2}, 1000, 90);
  EXPECT_FLOAT_EQ(times.least({2, 2}, 1), 0.09F);
  times.add({2, 5}, 1000, 90);  // no such way: a peer may write anything
  times.add({2, 0xffff}, 1000, 90);
}

/// What a receiver says of a message that goes either way.
class ReadTimer : public testing::Test {
 protected:
  /// Nanoseconds that it says of a message of which its sender says this.
  float says(std::uint16_t trial, std::uint32_t begun, std::uint32_t took) {
    const ShmTimed timed{trial, static_cast<std::uint16_t>(ShmWay::unlent), begun, took};
    timer.found(timed);
    EXPECT_TRUE(timer.is_on() && timer.either_way());
    timer.read(kBytes, times);
    EXPECT_FALSE(timer.is_on());
    return times.least(timed, 1) * kBytes;
  }
  static std::uint32_t now() { return static_cast<std::uint32_t>(now_ns()); }

  static constexpr std::size_t kBytes = 1000;
  static constexpr std::uint32_t kLong = 1'000'000'000;
  ShmReadTimer timer;
  ShmReadTimes times{};
};

TEST_F(ReadTimer, CountsFromWhenTheSenderBegan) {
  EXPECT_GE(says(1, now() - kLong, 0), 0.99F * kLong);
}

/// In a stream, messages wait for those before them, which says nothing of how long they take.
TEST_F(ReadTimer, DoesNotCountThatAMessageWaitedForTheOneBefore) {
  says(1, now() - kLong, 0);
  EXPECT_LT(says(2, now() - kLong, 0), 0.9F * kLong);
}

/// Times wrap.
TEST(ShmReadTimer, KnowsTheLaterOfTwoTimes) {
  for (const std::uint32_t now : {4'000'000'000U, 5U}) {
    for (const auto& [one, other] : {std::pair{3U, 7U}, {3U, 3'000'000'000U}, {0U, 1U}}) {
      EXPECT_EQ(ShmReadTimer::later(now, now - one, now - other), now - one);
      EXPECT_EQ(ShmReadTimer::later(now, now - other, now - one), now - one);
    }
  }
}

/// However fast it is read.
TEST_F(ReadTimer, AMessageTakesNoLessThanItsSenderTook) {
  says(1, now() - kLong, 0);
  EXPECT_NEAR(says(2, now(), kLong), kLong, 1e-3F * kLong);
}

/// The sender says so in the cell. Of two messages the second is begun before the first is read,
/// and is read as soon as it is there.
TEST(ShmReadTimer, LearnsFromTheCellHowLongTheSenderTook) {
  constexpr std::size_t kLength = 32 << 10, kPairs = 8, kTook = 100'000;
  ShmMemory memory(4, kLength);
  ShmSender sender(memory.fifo, 1, ShmWay::few, ShmWay::few);
  sender.listen_to(*memory.fifo.lender, true);
  ShmReceiver receiver(memory.fifo);
  const auto begin = [&] {
    return !sender.lends_either_way(kLength, false) && sender.acquire(kLength) != nullptr;
  };
  const auto read = [&] {
    EXPECT_EQ(receiver.next(kLength, 7), ShmReceiver::Next::expected);
    EXPECT_NE(receiver.payload(kLength), nullptr);
    receiver.release();
  };
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    ASSERT_TRUE(begin());
    sender.commit(kLength, 7);
    ASSERT_TRUE(begin());
    for (const std::uint64_t end = now_ns() + kTook; now_ns() < end;) continue;
    read();
    sender.commit(kLength, 7);
    read();
  }
  const ShmTimed unlent{1, static_cast<std::uint16_t>(ShmWay::unlent)};
  const float least = memory.fifo.times_of(kLength, true).least(unlent, 8);
  EXPECT_GE(least * kLength, 0.99F * kTook);
  EXPECT_TRUE(std::isfinite(least));
}

/// A message that is only read faster or slower, by the way in which it was written.
TEST_F(ReadTimer, CountsOnlyTheReadingOfOtherMessages) {
  const ShmTimed timed{1, static_cast<std::uint16_t>(ShmWay::spread), now() - kLong, 0};
  timer.found(timed);
  EXPECT_FALSE(timer.either_way());
  timer.read(kBytes, times);
  EXPECT_LT(times.least(timed, 1) * kBytes, 0.9F * kLong);
  timer.found({});
  EXPECT_FALSE(timer.is_on());
}

/// If it is passed on, its time is mostly that of what is written from it.
TEST_F(ReadTimer, WhatIsPassedOnIsReadInNoTime) {
  const ShmTimed timed{1, static_cast<std::uint16_t>(ShmWay::spread), 0, 0};
  for (const bool passed_on : {false, true}) {
    timer.found(timed);
    for (const std::uint64_t end = now_ns() + 1000; now_ns() < end;) continue;
    timer.read(kBytes, times, passed_on);
    EXPECT_EQ(times.least(timed, 1) * kBytes < 1000, passed_on);
  }
  // One that goes either way counts from when its sender began.
  const ShmTimed unlent{1, static_cast<std::uint16_t>(ShmWay::unlent), now() - kLong, 0};
  ShmReadTimer other;
  other.found(unlent);
  other.read(kBytes, times, true);
  EXPECT_GE(times.least(unlent, 1) * kBytes, 0.99F * kLong);
}

/// How a message goes.
struct Passing {
  std::size_t took = 0;      ///< to read, nanoseconds
  bool from_before = false;  ///< its sender passes it on
  bool on = false;           ///< its receiver does
};
constexpr std::size_t kPassed = 40'000, kTook = 10'000;
/// Messages of kPassed bytes go as `of(number)` says. The least time to read that a trial finds of
/// few slots, nanoseconds; infinity: there is none.
template <class Of>
float least_of_few(Of of) {
  ShmMemory memory(4, 64 << 10);
  ShmSender sender(memory.fifo, 1, ShmWay::few, ShmWay::few);
  ShmReceiver receiver(memory.fifo);
  const ShmTimed few{1, static_cast<std::uint16_t>(ShmWay::few)}, next{2, few.way};
  float least = std::numeric_limits<float>::infinity();
  for (unsigned message = 0; message < 1000 && !std::isfinite(least); ++message) {
    const Passing passing = of(message);
    EXPECT_NE(sender.acquire(kPassed), nullptr);
    sender.commit(kPassed, 7, {.passed_on = passing.from_before});
    EXPECT_NE(receiver.payload(kPassed), nullptr);
    for (const std::uint64_t end = now_ns() + passing.took; now_ns() < end;) continue;
    if (passing.on) {
      EXPECT_TRUE(receiver.note_written());
    }
    receiver.release();
    const ShmReadTimes& times = memory.fifo.times_of(kPassed, false);
    least = std::min(times.least(few, 1), times.least(next, 1));
  }
  return least * kPassed;
}

/// The receiver knows which messages they are.
TEST(ShmReadTimer, KnowsWhatIsPassedOn) {
  EXPECT_EQ(least_of_few([](unsigned) { return Passing{.took = kTook, .on = true}; }), 0);
  for (const bool first : {false, true}) {
    const float ns = least_of_few(
        [&](unsigned message) { return Passing{.took = kTook, .on = first && message == 0}; });
    EXPECT_TRUE(std::isfinite(ns) && ns >= 0.99F * kTook) << "only the first one was passed on";
  }
  ShmMemory memory(4, 64 << 10);
  ShmSender sender(memory.fifo);
  ShmReceiver receiver(memory.fifo);
  EXPECT_FALSE(receiver.note_written()) << "nothing is being read";
  ASSERT_NE(sender.acquire(kPassed), nullptr);
  sender.commit(kPassed, 7);
  receiver.begin_to_read();  // where it lies
  EXPECT_TRUE(receiver.note_written());
  receiver.release();
  EXPECT_FALSE(receiver.note_written());
}

/// A sender asks for the times of what it copies: here the others are read in no time.
TEST(ShmReadTimer, IsAskedOnlyForWhatIsCopied) {
  const float ns = least_of_few([](unsigned message) {
    const bool copied = message % 4 == 0;
    return Passing{.took = copied ? kTook : 0, .from_before = !copied};
  });
  EXPECT_TRUE(std::isfinite(ns)) << "no trial";
  EXPECT_GE(ns, 0.99F * kTook);
}

/// What a trial asks for.
struct Asked {
  std::size_t waited = 0;  ///< bytes in few slots before it
  std::size_t others = 0;  ///< messages in few slots, or streamed
  std::size_t fill = 0;    ///< bytes that are spread before any spread message is timed
};
/// Nanoseconds that a message takes each way, by ShmWay.
constexpr std::uint64_t kSpreadIsBest[] = {1600, 400, 1600}, kFar[] = {9000, 4000, 600};

/// Messages of so many bytes go until the trial has chosen.
Asked asked_by(ShmSlotTrial& trial, std::size_t message_bytes, bool streaming = false,
               const std::uint64_t (&ns)[kShmWays] = kSpreadIsBest) {
  Asked asked;
  ShmReadTimes read{};
  bool timed_any = false, timed_spread = false;
  for (int message = 0; !trial.has_settled(); ++message) {
    if (message == 5000) {
      ADD_FAILURE() << "no choice";
      break;
    }
    const ShmWay way = trial.way();
    const bool spread = way == ShmWay::spread;
    const ShmTimed timed = trial.timed();
    timed_any = timed_any || timed.trial != 0;
    timed_spread = timed_spread || (spread && timed.trial != 0);
    asked.waited += timed_any || way != ShmWay::few ? 0 : message_bytes;
    asked.others += spread ? 0 : 1;
    asked.fill += spread && !timed_spread ? message_bytes : 0;
    trial.wrote(message_bytes, ns[static_cast<std::size_t>(way)], read, {.streaming = streaming});
    if (timed.trial != 0) read.add(timed, message_bytes, 100);
  }
  return asked;
}
/// Bytes until the next trial.
std::size_t holds_for(ShmSlotTrial& trial, std::size_t message_bytes, bool streaming = true) {
  std::size_t bytes = 0;
  for (; trial.has_settled() && bytes < std::size_t{1} << 30; bytes += message_bytes)
    trial.wrote(message_bytes, 400, {}, {.streaming = streaming});
  return bytes;
}
constexpr std::size_t kMiB = std::size_t{1} << 20, kMessage = 16 << 10;
/// So that a trial does not begin with what another one in this process chose.
constexpr double kCrowded = 1.5;

/// Of long messages each takes long.
TEST(ShmSlotTrial, AsksForFewerLongMessagesAndLessOften) {
  for (const bool is_long : {false, true}) {
    const std::size_t bytes = is_long ? 256 << 10 : kMessage, each = is_long ? 3 : 8;
    ShmSlotTrial trial(ShmSlotSize::large, std::nullopt, kCrowded);
    EXPECT_EQ(asked_by(trial, bytes, true).others, 4 * each) << bytes;
    const std::size_t held = holds_for(trial, bytes), first = (is_long ? 16 : 4) * kMiB;
    EXPECT_GE(held, first) << bytes;
    EXPECT_LE(held, first + 2 * bytes) << bytes;
    EXPECT_EQ(asked_by(trial, bytes, true).others, 4 * each) << bytes;
  }
}

/// The first calls of a program do not pay for new memory, but a stream is many calls.
TEST(ShmSlotTrial, WaitsAtFirst) {
  for (const double ranks_per_core : {1.0, kCrowded}) {
    // The stream first: the others may begin with what it chose.
    for (const bool streaming : {true, false}) {
      ShmSlotTrial trial(ShmSlotSize::large, std::nullopt, ranks_per_core);
      const bool waits = ranks_per_core == 1.0 && !streaming;
      const std::size_t few = (streaming && ranks_per_core == 1.0 ? 16 : 8) * kMessage;
      const std::size_t waited = asked_by(trial, kMessage, streaming).waited;
      EXPECT_GE(waited, waits ? 4 * kMiB : few);
      EXPECT_LT(waited, (waits ? 4 * kMiB : few) + 2 * kMessage);
      holds_for(trial, kMessage, streaming);
      EXPECT_LT(asked_by(trial, kMessage, streaming).waited, 10 * kMessage) << "only the first";
    }
  }
  // What is lent meanwhile counts.
  ShmSlotTrial trial(ShmSlotSize::large, std::nullopt);
  for (std::size_t bytes = 0; bytes < 3 * kMiB; bytes += kMessage) trial.wait(kMessage);
  const std::size_t waited = asked_by(trial, kMessage).waited;
  EXPECT_GE(waited, kMiB);
  EXPECT_LT(waited, kMiB + 10 * kMessage);
  ShmSlotTrial small(ShmSlotSize::small, std::nullopt);
  EXPECT_FALSE(small.may_wait());
}

/// Twice more, once the pages are there. Not if it is lost anyway.
TEST(ShmSlotTrial, SpreadsThreeTimesRoundNewMemory) {
  for (const bool loses : {false, true}) {
    ShmSlotTrial trial(ShmSlotSize::large, std::nullopt, kCrowded);
    for (const std::size_t rounds : {loses ? 1U : 3U, 1U, 1U}) {
      const std::size_t fill = asked_by(trial, kMessage, true, loses ? kFar : kSpreadIsBest).fill;
      EXPECT_EQ(trial.way(), loses ? ShmWay::streamed : ShmWay::spread);
      EXPECT_GE(fill, rounds * trial.spreads_over());
      EXPECT_LT(fill, rounds * trial.spreads_over() + 10 * kMessage);
      holds_for(trial, kMessage);
    }
  }
}

/// How many it asks for depends on the first one. Each is timed for its length.
TEST(ShmSlotTrial, MayBeOfMessagesOfAnyLengths) {
  for (const ShmWay best : {ShmWay::few, ShmWay::spread, ShmWay::streamed}) {
    for (unsigned first = 0; first < 4; ++first) {
      ShmSlotTrial trial(ShmSlotSize::large, std::nullopt, kCrowded);
      ShmReadTimes read{};
      for (unsigned message = first; !trial.has_settled() && message < 5000; ++message) {
        const std::size_t bytes = message % 4 == 0 ? 64 << 10 : message % 2 == 0 ? 40'000 : 5000;
        const ShmTimed timed = trial.timed();
        trial.wrote(bytes, bytes * (trial.way() == best ? 1 : 2), read, {.streaming = true});
        if (timed.trial != 0) read.add(timed, bytes, bytes);
      }
      EXPECT_TRUE(trial.has_settled());
      EXPECT_EQ(trial.way(), best) << first;
    }
  }
}

/// Of a choice that another connection made, too: what new pages take says nothing of loans.
TEST(ShmSlotTrial, IsSettledOnceItsMemoryIsNotNew) {
  for (const ShmWay way : {ShmWay::few, ShmWay::streamed, ShmWay::spread}) {
    ShmSlotTrial trial(ShmSlotSize::large, way);
    std::size_t bytes = 0;
    for (; !trial.has_settled() && bytes < 100 * kMiB; bytes += kMessage)
      trial.wrote(kMessage, 400, {});
    const std::size_t round = way == ShmWay::spread ? 3 * trial.spreads_over() : 0;
    EXPECT_GE(bytes, round);
    EXPECT_LT(bytes, round + 2 * kMessage);
    EXPECT_EQ(trial.way(), way);
  }
}

}  // namespace
}  // namespace coll::test
