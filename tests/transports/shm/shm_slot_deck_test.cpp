// SPDX-License-Identifier: Apache-2.0
// Which slots a sender uses: the large ones as a deck, the small ones as a ring.
#include "transports/shm/shm_slot_deck.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "test_seed.hpp"

namespace coll::test {
namespace {

constexpr std::size_t kLarge = 8192;

TEST(ShmSlotDeck, SpreadsOverAllOfItsBytesBeforeAnyIsWrittenAgain) {
  constexpr std::size_t kSpread = 64 << 10;
  constexpr std::uint32_t kSlots = 8;
  ShmSlotDeck deck(kSlots);
  deck.spread(kSpread);
  const std::uint32_t fit = (kSpread - kLarge) / ((kLarge + kPrefetchedBytes + 63) / 64 * 64) + 1;
  std::set<std::pair<std::uint32_t, std::uint32_t>> places;
  std::uint32_t back = 0;
  for (std::uint32_t i = 0; i < fit * kSlots; ++i) {
    const ShmPlace slot = deck.offer(kLarge);
    EXPECT_LE(slot.offset() + kLarge, kSpread);
    EXPECT_TRUE(places.emplace(slot.number(), slot.offset()).second)
        << "written again, after " << i;
    deck.send(kLarge, false);
    ASSERT_TRUE(deck.take_back(++back));
  }
  EXPECT_FALSE(places.emplace(deck.offer(kLarge).number(), deck.offer(kLarge).offset()).second);
  deck.send(kLarge, false);
  EXPECT_GT(deck.offer(kLarge).offset(), 0U);
  deck.spread(0);
  EXPECT_EQ(deck.offer(kLarge).offset(), 0U);
}

/// It is the one that the receiver's cache has; and what is spread goes on where it was.
TEST(ShmSlotDeck, WhatIsLentHasTheSlotThatCameBackLast) {
  constexpr std::size_t kSpread = 64 << 10;
  constexpr std::uint32_t kSlots = 4;
  std::mt19937_64 random(test_seed());
  ShmSlotDeck deck(kSlots);
  deck.spread(kSpread);
  std::uint32_t back = 0;
  const auto send = [&](bool lent) {
    ShmPlace slot = deck.offer(kLarge);
    if (lent) slot = deck.offer_to_fill();
    deck.send(kLarge, lent);
    EXPECT_TRUE(deck.take_back(++back));
    return slot;
  };
  std::set<std::pair<std::uint32_t, std::uint32_t>> spread;
  const std::uint32_t fit = (kSpread - kLarge) / (kLarge + kPrefetchedBytes) + 1;
  for (std::uint32_t written = 0; written < fit * (kSlots - 1);) {
    const bool lent = random() % 2 == 0;
    const ShmPlace slot = send(lent);
    if (lent) {
      EXPECT_EQ(slot.offset(), 0U);
    } else {
      EXPECT_TRUE(spread.emplace(slot.number(), slot.offset()).second) << "written again";
      ++written;
    }
  }
  std::set<std::uint32_t> in_a_row;
  for (int i = 0; i < 10; ++i) in_a_row.insert(send(true).number());
  EXPECT_EQ(in_a_row.size(), 1U);
}

/// However many are lent, or under way, and whenever messages begin to be spread.
TEST(ShmSlotDeck, NoByteIsUsedTwiceAtATime) {
  struct Used {
    std::uint32_t slot = 0;
    std::size_t begin = 0, end = 0;
  };
  constexpr std::size_t kSlot = 64 << 10;
  std::mt19937_64 random(test_seed());
  for (const std::uint32_t slots : {1U, 2U, 5U, 8U}) {
    ShmSlotDeck deck(slots);
    std::deque<Used> under_way;
    std::uint32_t back = 0;
    std::ptrdiff_t most_in_a_slot = 0;
    bool offered = false;
    for (int turn = 0; turn < 20'000; ++turn) {
      ASSERT_EQ(deck.has_one(), under_way.size() < slots);
      if (random() % 100 == 0)
        deck.spread(std::array<std::size_t, 3>{0, 20'000, 64'000}[random() % 3]);
      if (random() % 2 == 0 && deck.has_one()) {
        const std::size_t bytes = random() % 4 == 0 ? kSlot : 4097 + random() % 8000;
        if (random() % 4 == 0) deck.offer(4097 + random() % 60'000);  // it may be another message
        ShmPlace slot = deck.offer(bytes);
        if (random() % 4 == 0 && !under_way.empty()) {  // it does not go yet
          under_way.pop_front();
          ASSERT_TRUE(deck.take_back(++back));
        }
        const ShmPlace again = deck.offer(bytes);
        ASSERT_TRUE(again.number() == slot.number() && again.offset() == slot.offset());
        const bool lent = random() % 2 == 0;
        if (lent) slot = deck.offer_to_fill();
        const Used used{slot.number(), slot.offset(), slot.offset() + bytes};
        ASSERT_LE(used.end, kSlot);
        for (const Used& other : under_way) {
          ASSERT_TRUE(other.slot != used.slot || other.end <= used.begin || used.end <= other.begin)
              << used.begin << " to " << used.end << " of slot " << used.slot;
        }
        deck.each_free([&](std::uint32_t free) { ASSERT_NE(free, used.slot); });
        deck.send(bytes, lent);
        under_way.push_back(used);
        offered = false;
        const auto in_it = std::ranges::count(under_way, used.slot, &Used::slot);
        most_in_a_slot = std::max(most_in_a_slot, in_it);
      } else if (!under_way.empty()) {
        if (random() % 4 == 0 && deck.has_one()) {  // it does not go yet
          deck.offer(4097);
          offered = true;
        }
        under_way.pop_front();
        ASSERT_TRUE(deck.take_back(++back));
      }
      std::set<std::uint32_t> free;
      deck.each_free([&](std::uint32_t slot) { free.insert(slot); });
      for (const Used& one : under_way) ASSERT_FALSE(free.contains(one.slot));
    }
    EXPECT_EQ(most_in_a_slot > 1, slots > 1);
    for (; !under_way.empty(); under_way.pop_front()) ASSERT_TRUE(deck.take_back(++back));
    std::uint32_t free = 0;
    deck.each_free([&](std::uint32_t) { ++free; });
    EXPECT_EQ(free, offered ? slots - 1 : slots);
  }
}

TEST(ShmSlotDeck, CountsMayWrap) {
  for (const std::uint32_t count : {1U, 3U, 8U}) {
    std::uint32_t sent = std::numeric_limits<std::uint32_t>::max() - 20, returned = sent;
    ShmSlotDeck deck(count, sent);
    std::mt19937 random(test_seed());
    std::deque<std::uint32_t> under_way;
    for (int turn = 0; turn < 500; ++turn) {
      ASSERT_EQ(deck.has_one(), under_way.size() < count);
      if (random() % 2 == 0 && deck.has_one()) {
        const std::uint32_t slot = deck.offer(64).number();
        ASSERT_EQ(std::ranges::count(under_way, slot), 0);
        ASSERT_EQ(deck.offer(64).number(), slot);
        deck.send(64, random() % 3 == 0);
        under_way.push_back(slot);
        ++sent;
      } else if (!under_way.empty()) {
        under_way.pop_front();
        ASSERT_TRUE(deck.take_back(++returned));
      }
    }
    EXPECT_FALSE(deck.take_back(sent + 1));
    EXPECT_FALSE(deck.take_back(returned - 1));
  }
}

/// One behind the other, but apart, or the reader's processor would prefetch from what is being
/// written.
TEST(ShmSlotDeck, SpreadMessagesLieInARow) {
  std::mt19937_64 random(test_seed());
  ShmSlotDeck deck(3);
  deck.spread(100'000);
  std::map<std::uint32_t, std::uint32_t> end;
  std::uint32_t came_back = 0, behind = 0, last = 0;
  for (int message = 0; message < 1000; ++message) {
    const std::size_t bytes = 4097 + random() % 12'000;
    const ShmPlace slot = deck.offer(bytes);
    EXPECT_EQ(slot.offset() % kCacheLine, 0U);
    if (slot.offset() > 0) {
      EXPECT_EQ(slot.number(), last) << "a slot is filled before the next one";
      EXPECT_GE(slot.offset(), end[slot.number()] + kPrefetchedBytes);
      EXPECT_LT(slot.offset(), end[slot.number()] + kPrefetchedBytes + kCacheLine);
      ++behind;
    }
    end[last = slot.number()] = slot.offset() + static_cast<std::uint32_t>(bytes);
    deck.send(bytes, false);
    EXPECT_FALSE(deck.wants_back()) << "each slot has its turn";
    if (!deck.has_one()) {
      ASSERT_TRUE(deck.take_back(came_back += 3));
    }
  }
  EXPECT_GT(behind, 800U);
}

constexpr std::uint32_t kFew = 8, kMost = 32;

/// However many are under way when the sender begins to use more slots, or fewer.
TEST(ShmSlotRing, ASlotIsFreeWhenItsTurnComes) {
  std::mt19937_64 random(test_seed());
  std::size_t most = 0;
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t first = -static_cast<std::uint32_t>(random() % 500);  // the counts wrap
    ShmSlotRing ring(kFew, kMost, first);
    std::deque<std::uint32_t> under_way;
    std::uint32_t read = first;
    for (int step = 0; step < 2000; ++step) {
      const bool fills = step / 100 % 2 == 0;
      if (random() % 4 >= (fills ? 3 : 1)) {  // the receiver
        if (under_way.empty()) continue;
        under_way.pop_front();
        ++read;
        continue;
      }
      // The sender asks only when it has to, also when nothing has come back.
      if (!ring.has_one()) {
        ASSERT_TRUE(ring.take_back(read));
      }
      if (!ring.has_one()) continue;
      ASSERT_EQ(std::ranges::count(under_way, ring.next()), 0) << ring.next();
      under_way.push_back(ring.next());
      if (round % 2 == 0 && random() % 50 == 0)
        ring.spread(random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(random() % 200));
      ring.send();
      most = std::max(most, under_way.size());
    }
    EXPECT_EQ(most, kMost);
  }
}

TEST(ShmSlotRing, NoMoreSlotsAreUsedThanTheFewUntilTheseAreNotEnough) {
  ShmSlotRing ring(kFew, kMost);
  std::uint32_t sent = 0;
  const auto send_all = [&] {
    std::set<std::uint32_t> slots;
    for (; ring.has_one(); ++sent) {
      slots.insert(ring.next());
      ring.send();
    }
    return slots;
  };
  for (std::uint32_t i = 0; i < 3 * kFew; ++i) {
    ASSERT_LT(ring.next(), kFew);
    ring.send();
    ASSERT_TRUE(ring.take_back(++sent));
  }
  EXPECT_EQ(send_all().size(), kFew);
  ASSERT_TRUE(ring.take_back(sent - kFew));
  EXPECT_FALSE(ring.has_one()) << "none of the few has come back";
  ASSERT_TRUE(ring.take_back(sent));
  EXPECT_EQ(send_all().size(), kMost);
  EXPECT_FALSE(ring.take_back(sent + 1)) << "it was never sent";
  EXPECT_FALSE(ring.take_back(sent - kMost - 1)) << "it had come back before";
}

TEST(ShmSlotRing, SpreadMessagesGoRoundAllSlots) {
  for (const std::uint32_t spread : {3 * kMost, kFew / 2}) {
    ShmSlotRing ring(kFew, kMost);
    ring.spread(spread);
    std::set<std::uint32_t> slots;
    const std::uint32_t all = std::max(spread, kMost);
    for (std::uint32_t sent = 0; sent < all;) {
      EXPECT_TRUE(slots.insert(ring.next()).second);
      ring.send();
      ASSERT_TRUE(ring.take_back(++sent));
    }
    EXPECT_FALSE(slots.insert(ring.next()).second);
  }
}

}  // namespace
}  // namespace coll::test
