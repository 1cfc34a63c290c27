// SPDX-License-Identifier: Apache-2.0
// In which way messages are written to their slots, by the times that they take.
#include "transports/shm/shm_slot_trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "shm/slot_trials.hpp"
#include "shm_memory.hpp"
#include "test_seed.hpp"
#include "transport_backend.hpp"
#include "transports/shm/shm_transport.hpp"

namespace coll::test {
namespace {

/// Whether it is made by a trial or, if other tests ran before in this process, inherited.
TEST(ShmSlotTrial, AFirstChoiceIsNoConfirmation) {
  ShmSlotTrial trial(ShmSlotSize::large, std::nullopt);
  for (const std::size_t mebibytes : {4U, 16U, 64U}) {
    chosen(trial, {{300, 900, 700}, {300, 400, 900}});
    const std::size_t bytes = bytes_until_next(trial, 300);
    EXPECT_GE(bytes, mebibytes << 20);
    EXPECT_LT(bytes, (mebibytes << 20) + 2 * kBytes);
  }
  EXPECT_EQ(chosen(trial, {{300, 900, 700}, {300, 400, 900}}), ShmWay::few);
}

TEST(ShmSlotTrial, ChoosesTheWayThatTakesTheLeastTimeOfBothEnds) {
  const std::pair<Times, ShmWay> machines[] = {
      // One cache for both cores, and few slots are written fast.
      {{{300, 900, 700}, {300, 400, 900}}, ShmWay::few},
      // The sender waits for lines that the receiver holds.
      {{{1600, 400, 600}, {400, 400, 900}}, ShmWay::spread},
      // Both wait for each other, over a long way.
      {{{6800, 2600, 600}, {700, 5000, 1000}}, ShmWay::streamed},
      // Fast to write, and slow to read: a sender alone would choose it.
      {{{1600, 400, 300}, {400, 400, 4000}}, ShmWay::spread},
      // A little faster is not worth more memory.
      {{{1000, 960, 970}, {1000, 960, 970}}, ShmWay::few},
      {{{1000, 900, 950}, {1000, 900, 950}}, ShmWay::spread},
      // To go past the caches must gain more, also over what is spread.
      {{{1000, 990, 850}, {1000, 990, 850}}, ShmWay::few},
      {{{1000, 900, 730}, {1000, 900, 730}}, ShmWay::spread},
      {{{1000, 900, 700}, {1000, 900, 700}}, ShmWay::streamed},
  };
  for (const auto& [times, best] : machines) {
    for (const std::size_t behind : {0U, 1U, 8U}) {
      ShmSlotTrial trial = new_trial();
      std::set<ShmWay> tried;
      EXPECT_EQ(chosen(trial, times, behind, &tried), best) << behind;
      EXPECT_EQ(tried.size(), kShmWays);
    }
  }
}

/// To spread takes new memory, of each of many connections.
TEST(ShmSlotTrial, WhereRanksShareCoresOnlyStreamsAreSpreadAtOnce) {
  const Times spread_is_best{{1600, 400, 600}, {400, 400, 900}};
  ShmSlotTrial other = new_trial();
  chosen(other, {{300, 900, 700}, {300, 400, 900}});
  const auto latest = ShmSlotTrial::latest(ShmSlotSize::large);
  for (const bool streaming : {true, false}) {
    ShmSlotTrial trial(ShmSlotSize::large, ShmWay::streamed, 2);
    EXPECT_FALSE(trial.has_settled()) << "it begins with another connection's choice";
    EXPECT_EQ(trial.spreads_over(), other.spreads_over() / 2);
    for (int choices = 1; choices <= 3; ++choices) {
      const ShmWay best = streaming || choices == 3 ? ShmWay::spread : ShmWay::streamed;
      EXPECT_EQ(chosen(trial, spread_is_best, 5, nullptr, streaming), best);
      bytes_until_next(trial, best == ShmWay::spread ? 400 : 600);
    }
  }
  EXPECT_EQ(ShmSlotTrial::latest(ShmSlotSize::large), latest) << "others begin with its choice";
  ShmSlotTrial crowded(ShmSlotSize::large, std::nullopt, 2);
  EXPECT_EQ(chosen(crowded, {{1000, 900, 950}, {1000, 900, 950}}, 5, nullptr, true), ShmWay::few)
      << "a tenth is not worth the memory of so many";
}

/// They are tried the same ways. A little more memory is worth a tenth, not less.
TEST(ShmSlotTrial, ShortMessagesHaveAChoiceOfTheirOwn) {
  const std::pair<Times, ShmWay> machines[] = {
      {{{1600, 400, 600}, {400, 400, 900}}, ShmWay::spread},
      {{{300, 900, 700}, {300, 400, 900}}, ShmWay::few},
      {{{2000, 2000, 150}, {700, 700, 350}}, ShmWay::streamed},
      {{{1000, 900, 950}, {1000, 900, 950}}, ShmWay::spread},
      {{{1000, 970, 990}, {1000, 970, 990}}, ShmWay::few},
  };
  ShmSlotTrial long_messages = new_trial();
  ASSERT_EQ(chosen(long_messages, {{1600, 400, 600}, {400, 400, 900}}), ShmWay::spread);
  const auto large = ShmSlotTrial::latest(ShmSlotSize::large);
  for (const auto& [times, best] : machines) {
    ShmSlotTrial trial = new_trial(ShmSlotSize::small);
    std::set<ShmWay> tried;
    EXPECT_EQ(chosen(trial, times, 5, &tried), best);
    EXPECT_EQ(tried.size(), kShmWays);
    EXPECT_EQ(ShmSlotTrial(ShmSlotSize::small).way(), best) << "the next sender of the process";
    EXPECT_EQ(ShmSlotTrial::latest(ShmSlotSize::large), large) << "which is another choice";
  }
}

/// So its first combined message is already written as is best.
TEST(ShmSlotTrial, AConnectionBeginsWithWhatTheProcessChoseLast) {
  const Backend shm{.name = "shm", .make = make_shm_transport};
  const auto choose = [](ShmSlotSize size, bool streamed) {
    ShmSlotTrial trial = new_trial(size);
    const Times far{{6800, 2600, 600}, {700, 5000, 1000}},
        one_cache{{300, 900, 700}, {300, 400, 900}};
    ASSERT_EQ(chosen(trial, streamed ? far : one_cache), streamed ? ShmWay::streamed : ShmWay::few);
  };
  for (const bool small : {true, false}) {
    for (const bool large : {true, false}) {
      choose(ShmSlotSize::small, small);
      choose(ShmSlotSize::large, large);
      Pair pair(shm, 64 << 10);
      ASSERT_TRUE(pair.ready);
      for (const auto& end : pair.ends) {
        EXPECT_FALSE(end->is_streamed(0) || end->is_streamed(2048)) << "it is written ahead";
        for (const std::size_t bytes : {2049U, 4096U}) EXPECT_EQ(end->is_streamed(bytes), small);
        for (const std::size_t bytes : {4097U, 64U << 10})
          EXPECT_EQ(end->is_streamed(bytes), large);
      }
      Pair short_slots(shm, 4096);  // whose messages no trial is of
      ASSERT_TRUE(short_slots.ready);
      for (const auto& end : short_slots.ends) EXPECT_FALSE(end->is_streamed(4096));
    }
  }
}

/// Cores move. But the longer a choice has been right, the less often it is tried.
TEST(ShmSlotTrial, TriesAgainLessOftenWhileTheChoiceStays) {
  const Times near{{1600, 400, 600}, {400, 400, 900}}, far{{6800, 2600, 600}, {700, 5000, 1000}};
  ShmSlotTrial trial = new_trial();
  for (const std::size_t mebibytes : {16U, 64U, 256U, 256U}) {
    ASSERT_EQ(chosen(trial, near), ShmWay::spread);
    const std::size_t bytes = bytes_until_next(trial, near.write[1]);
    EXPECT_GE(bytes, mebibytes << 20);
    EXPECT_LT(bytes, (mebibytes << 20) + 2 * kBytes);
  }
  ASSERT_EQ(chosen(trial, far), ShmWay::streamed);
  EXPECT_LT(bytes_until_next(trial, far.write[2]), std::size_t{17} << 20);
}

/// Sooner, whether it takes longer now or shorter.
TEST(ShmSlotTrial, TriesAgainSoonerIfWritingTakesAnotherTime) {
  for (const std::uint64_t now : {100U, 2000U}) {
    ShmSlotTrial trial = new_trial();
    ASSERT_EQ(chosen(trial, {{1600, 400, 600}, {400, 400, 900}}), ShmWay::spread);
    EXPECT_LT(bytes_until_next(trial, now), std::size_t{5} << 20);
    EXPECT_EQ(chosen(trial, {{300, 900, 700}, {300, 400, 900}}), ShmWay::few);
    // Others take the core now and then: that is no other time.
    ShmReadTimes none;
    std::size_t bytes = 0;
    for (std::uint64_t i = 0; trial.has_settled(); ++i, bytes += kBytes)
      trial.wrote(kBytes, i % 48 == 0 ? 1'000'000 : 300, none);
    EXPECT_GE(bytes, std::size_t{16} << 20);
  }
}

/// What is best for some may not be for others. Long ones are few.
TEST(ShmSlotTrial, TriesEachKindOfShortMessagesSoonAndOnce) {
  const Times times{{1600, 400, 600}, {400, 400, 900}};
  ShmSlotTrial trial = new_trial();
  const auto tries_soon = [&](std::size_t message_bytes, bool streaming, bool other = false) {
    EXPECT_EQ(chosen(trial, times, 5, nullptr, other), ShmWay::spread);
    std::size_t bytes = 0;
    for (; trial.has_settled(); bytes += message_bytes)
      trial.wrote(message_bytes, times.write[1] * message_bytes / kBytes, {},
                  {.streaming = streaming});
    return bytes < std::size_t{17} << 20;
  };
  for (int confirmed = 0; confirmed < 4; ++confirmed) tries_soon(kBytes, false);
  ASSERT_FALSE(tries_soon(kBytes, false));
  EXPECT_TRUE(tries_soon(4 << 10, false));
  EXPECT_TRUE(tries_soon(16 << 10, true));
  EXPECT_TRUE(tries_soon(4 << 10, true));
  EXPECT_FALSE(tries_soon(64 << 10, true)) << "it is long";
  EXPECT_TRUE(tries_soon(kBytes, true, true)) << "its first trial confirms nothing";
  EXPECT_FALSE(tries_soon(kBytes, true, true));
}

/// Also where the choice was right for long.
TEST(ShmSlotTrial, TriesAgainSoonAfterCoresHaveMoved) {
  const Times near{{1600, 400, 600}, {400, 400, 900}}, far{{6800, 2600, 600}, {700, 5000, 1000}};
  ShmSlotTrial trial = new_trial();
  for (int confirmed = 0; confirmed < 5; ++confirmed) {
    ASSERT_EQ(chosen(trial, near), ShmWay::spread);
    if (confirmed < 4) bytes_until_next(trial, near.write[1]);
  }
  EXPECT_LT(bytes_until_next(trial, far.write[1]), std::size_t{17} << 20);
  EXPECT_EQ(chosen(trial, far), ShmWay::streamed);
}

TEST(ShmSlotTrial, StaysWithFewSlotsIfTheReceiverSaysNothing) {
  ShmSlotTrial trial = new_trial();
  EXPECT_EQ(chosen(trial, {{1600, 400, 600}, {400, 400, 900}}, 10'000), ShmWay::few);
}

TEST(ShmSlotTrial, NewSendersBeginWithTheLatestChoice) {
  ShmSlotTrial trial = new_trial();
  ASSERT_EQ(chosen(trial, {{6800, 2600, 600}, {700, 5000, 1000}}), ShmWay::streamed);
  ShmSlotTrial next(ShmSlotSize::large);
  EXPECT_EQ(next.way(), ShmWay::streamed);
  EXPECT_TRUE(next.has_settled());
  const std::size_t bytes = bytes_until_next(next, 600);
  EXPECT_GE(bytes, std::size_t{4} << 20);
  EXPECT_LT(bytes, (std::size_t{4} << 20) + 2 * kBytes);
}

/// Messages go until so many have been received, however far the receiver lags, and arrive as they
/// were: the places where they lay, all in slots of this size.
template <class Length, class Sent>
std::set<const std::byte*> stream(ShmMemory& memory, ShmSender& sender, std::size_t size,
                                  std::uint64_t count, std::mt19937_64& random,
                                  Length length_of_next, Sent has_sent) {
  ShmReceiver receiver(memory.fifo);
  std::deque<std::size_t> under_way;
  std::set<const std::byte*> places;
  const ShmSlots& slots = memory.fifo.slots[size];
  std::uint64_t sent = 0, received = 0;
  const auto fill = [](std::uint64_t number, std::size_t at) {
    return static_cast<std::byte>(number * 31 + at * 7);
  };
  while (received < count) {
    const std::size_t bytes = length_of_next();
    std::byte* place = random() % 3 != 0 ? sender.acquire(bytes) : nullptr;
    if (place != nullptr) {
      EXPECT_TRUE(place >= slots.begin && place + bytes <= slots.begin + slots.bytes());
      places.insert(place);
      for (std::size_t at = 0; at < bytes; at += 97) place[at] = fill(sent, at);
      sender.commit(bytes, sent++);
      has_sent();
      under_way.push_back(bytes);
    } else if (!under_way.empty()) {
      const std::size_t length = under_way.front();
      under_way.pop_front();
      EXPECT_EQ(receiver.next(length, received), ShmReceiver::Next::expected);
      const std::byte* data = receiver.payload(length);
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < length; at += 97) wrong += data[at] != fill(received, at);
      EXPECT_EQ(wrong, 0U) << "message " << received;
      if (::testing::Test::HasFailure()) break;
      receiver.release();
      ++received;
    }
  }
  return places;
}

/// More than the bytes before a trial, and in it: where the choice was inherited, messages go round
/// new memory first.
const std::size_t kUntilTrial = 3 * ShmSlotTrial::spread_bytes() + (std::size_t{6} << 20);

/// Whatever way is tried or chosen.
TEST(ShmSlotTrial, MessagesArriveWhole) {
  std::mt19937_64 random(test_seed());
  for (const bool tries : {true, false}) {
    for (const ShmWay way : {ShmWay::few, ShmWay::spread, ShmWay::streamed}) {
      ShmMemory memory(4, 64 << 10);
      ShmSender sender(memory.fifo, 1, ShmWay::few, way);
      std::set<bool> streams;
      const auto places = stream(
          memory, sender, 1, tries ? kUntilTrial / 20'000 : 100, random,
          [&] { return random() % 4 == 0 ? 5000 : 4097 + random() % (60 << 10); },
          [&] { streams.insert(sender.streamed().has(kBytes)); });
      // Spread messages begin anywhere; others where a slot begins. A trial tries both, but spreads
      // few messages where caches are small.
      if (way == ShmWay::spread) {
        EXPECT_GT(places.size(), 20U);
      } else {
        EXPECT_EQ(places.size() > 4, tries) << places.size();
      }
      const bool streamed = way == ShmWay::streamed;
      EXPECT_EQ(streams, tries ? std::set({false, true}) : std::set({streamed}));
    }
  }
}

/// However many are under way when the sender begins to use more slots, or fewer.
TEST(ShmSlotTrial, ShortMessagesArriveWhole) {
  std::mt19937_64 random(test_seed());
  for (const bool tries : {true, false}) {
    for (const ShmWay way : {ShmWay::few, ShmWay::spread, ShmWay::streamed}) {
      ShmMemory memory(4, 64 << 10);
      ShmSender sender(memory.fifo, 1, way, ShmWay::few);
      std::set<bool> streams;
      const auto places = stream(
          memory, sender, 0, tries ? kUntilTrial / 800 : 700, random,
          [&] { return random() % 4 == 0 ? 200 : 113 + random() % 3984; },
          [&] { streams.insert(sender.streamed().has(ShmFifo::kSmallBytes)); });
      const bool streamed = way == ShmWay::streamed;
      EXPECT_EQ(streams, tries ? std::set({false, true}) : std::set({streamed}));
      const std::size_t all =
          std::min<std::size_t>(700, ShmSlotTrial::spread_bytes() / ShmFifo::kSmallStride);
      if (way == ShmWay::spread) {
        EXPECT_GE(places.size(), all);
      } else {
        EXPECT_EQ(places.size() > ShmFifo::kSmallCredits, tries) << places.size();
      }
      EXPECT_FALSE(sender.broken());
      // The receiver has told the trial, and of these slots only.
      const auto told = [&](ShmSlotSize size) {
        const ShmReadTimes& times = memory.fifo.consumed->times[static_cast<std::size_t>(size)];
        return std::ranges::any_of(std::array<std::uint16_t, 3>{1, 2, 3}, [&](std::uint16_t trial) {
          return std::isfinite(times.least({trial, 0}, 1));
        });
      };
      EXPECT_EQ(told(ShmSlotSize::small), tries);
      EXPECT_FALSE(told(ShmSlotSize::large));
    }
  }
}

/// A slot that was written long ago, or never, takes longer to write: it is a new page, or memory.
TEST(ShmSlotTrial, ShortMessagesAreTriedOnSlotsThatAreWrittenAgainAndAgain) {
  constexpr std::uint32_t kCredits = ShmFifo::kSmallCredits;
  const auto all = static_cast<std::uint32_t>(ShmSlotTrial::spread_bytes() / ShmFifo::kSmallStride);
  for (const bool few_is_best : {true, false}) {
    ShmSlotTrial trial = new_trial(ShmSlotSize::small);
    ShmReadTimes read;
    ShmSlotRing ring(kCredits, kCredits);
    std::vector<std::uint64_t> last(all);
    std::uint64_t message = 0;
    const auto go = [&] {
      ring.spread(trial.way() == ShmWay::spread ? all : 0);
      const std::uint64_t before = std::exchange(last[ring.next()], ++message);
      const bool warm = before != 0 && message - before < all / 2;
      const std::uint64_t ns = before == 0 ? 2000 : warm == few_is_best ? 300 : 900;
      const ShmTimed timed = trial.timed();
      trial.wrote(4000, ns, read);
      if (timed.trial != 0) read.add(timed, 4000, 100);
      ring.send();
      ASSERT_TRUE(ring.take_back(static_cast<std::uint32_t>(message)));
    };
    for (int choices = 0; choices < 4; ++choices) {
      while (!trial.has_settled()) go();
      EXPECT_EQ(trial.way(), few_is_best ? ShmWay::few : ShmWay::spread) << choices;
      while (trial.has_settled()) go();
    }
  }
}

}  // namespace
}  // namespace coll::test
