// SPDX-License-Identifier: Apache-2.0
// Which slots a sender uses: the large ones as a deck, the small ones as a ring.
#include "transports/shm/shm_slot_deck.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
    const ShmSlot slot = deck.offer(kLarge);
    EXPECT_LE(slot.offset + kLarge, kSpread);
    EXPECT_TRUE(places.emplace(slot.number, slot.offset).second) << "written again, after " << i;
    deck.send(kLarge, false);
    ASSERT_TRUE(deck.take_back(++back));
  }
  EXPECT_FALSE(places.emplace(deck.offer(kLarge).number, deck.offer(kLarge).offset).second);
  deck.spread(0);
  EXPECT_EQ(deck.offer(kLarge).offset, 0U);
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
    ShmSlot slot = deck.offer(kLarge);
    if (lent) slot = deck.offer_to_fill();
    deck.send(kLarge, lent);
    EXPECT_TRUE(deck.take_back(++back));
    return slot;
  };
  std::set<std::pair<std::uint32_t, std::uint32_t>> spread, filled;
  const std::uint32_t fit = kSpread / ((kLarge + 63) / 64 * 64);
  for (std::uint32_t written = 0; written < fit * (kSlots - 1);) {
    const bool lent = random() % 2 == 0;
    const ShmSlot slot = send(lent);
    if (lent) {
      EXPECT_EQ(slot.offset, 0U);
      filled.emplace(slot.number, 0);
    } else {
      EXPECT_TRUE(spread.emplace(slot.number, slot.offset).second) << "written again";
      ++written;
    }
  }
  std::set<std::uint32_t> in_a_row;
  for (int i = 0; i < 10; ++i) in_a_row.insert(send(true).number);
  EXPECT_EQ(in_a_row.size(), 1U);
}

/// None is used twice at a time, however many are lent, or under way.
TEST(ShmSlotDeck, SlotsThatAreFilledAreLikeOthers) {
  std::mt19937_64 random(test_seed());
  for (const std::size_t spread : {std::size_t{0}, std::size_t{64} << 10}) {
    constexpr std::uint32_t kSlots = 5;
    ShmSlotDeck deck(kSlots);
    deck.spread(spread);
    std::deque<std::uint32_t> under_way;
    std::uint32_t back = 0;
    for (int turn = 0; turn < 2000; ++turn) {
      ASSERT_EQ(deck.has_one(), under_way.size() < kSlots);
      if (random() % 2 == 0 && deck.has_one()) {
        const bool lent = random() % 2 == 0;
        std::uint32_t slot = deck.offer(kLarge).number;
        if (lent) slot = deck.offer_to_fill().number;
        ASSERT_EQ(std::ranges::count(under_way, slot), 0);
        deck.send(kLarge, lent);
        under_way.push_back(slot);
      } else if (!under_way.empty()) {
        under_way.pop_front();
        ASSERT_TRUE(deck.take_back(++back));
      }
    }
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
        const std::uint32_t slot = deck.offer(64).number;
        ASSERT_EQ(std::ranges::count(under_way, slot), 0);
        ASSERT_EQ(deck.offer(64).number, slot);
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

/// Or else the reader's processor would prefetch from what is being written.
TEST(ShmSlotDeck, SpreadMessagesLieApart) {
  std::mt19937_64 random(test_seed());
  ShmSlotDeck deck(3);
  deck.spread(100'000);
  std::map<std::uint32_t, std::uint32_t> end;
  std::uint32_t came_back = 0, behind = 0;
  for (int message = 0; message < 1000; ++message) {
    const std::size_t bytes = 4097 + random() % 12'000;
    const ShmSlot slot = deck.offer(bytes);
    EXPECT_EQ(slot.offset % kCacheLine, 0U);
    if (slot.offset > 0) {
      EXPECT_GE(slot.offset, end[slot.number] + kPrefetchedBytes);
      EXPECT_LT(slot.offset, end[slot.number] + kPrefetchedBytes + kCacheLine);
      ++behind;
    }
    end[slot.number] = slot.offset + static_cast<std::uint32_t>(bytes);
    deck.send(bytes, false);
    EXPECT_FALSE(deck.wants_back()) << "each slot has its turn";
    if (!deck.has_one()) {
      ASSERT_TRUE(deck.take_back(came_back += 3));
    }
  }
  EXPECT_GT(behind, 800U);
}

TEST(ShmSlotRing, AtLeastAsManyMessagesLieBetweenTwoOfOneSlotAsMayBeUnderWay) {
  constexpr std::uint32_t kCredits = 32;
  std::mt19937_64 random(test_seed());
  ShmSlotRing ring;
  ring.use(kCredits);
  std::map<std::uint32_t, std::uint64_t> last;
  for (std::uint64_t message = kCredits; message < 50'000; ++message) {
    if (random() % 50 == 0)
      ring.use(random() % 2 == 0 ? kCredits
                                 : kCredits + static_cast<std::uint32_t>(random() % 200));
    std::uint64_t& before = last[ring.next()];
    ASSERT_GE(message - before, kCredits) << "slot " << ring.next();
    before = message;
    ring.advance();
  }
}

}  // namespace
}  // namespace coll::test
