// SPDX-License-Identifier: Apache-2.0
// The FIFO of shm where its numbers wrap, and where the other side writes nonsense.
#include "transports/shm/shm_fifo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "shm_memory.hpp"
#include "test_seed.hpp"

namespace coll::test {
namespace {

bool send(ShmSender& sender, std::uint64_t value, std::size_t bytes) {
  std::byte* place = sender.acquire(bytes);
  if (place == nullptr) return false;
  std::memcpy(place, &value, sizeof value);
  sender.commit(bytes, value);
  return true;
}

bool receive(ShmReceiver& receiver, std::uint64_t value, std::size_t bytes) {
  if (receiver.next(bytes, value) != ShmReceiver::Next::expected) return false;
  std::uint64_t got = 0;
  std::memcpy(&got, receiver.payload(bytes), sizeof got);
  receiver.release();
  return got == value;
}

/// How many messages of `bytes` may be under way.
std::uint32_t room_for(const ShmFifo& fifo, std::size_t bytes) {
  return needs_slot(bytes) ? fifo.slots[fifo.size_of(bytes)].credits : fifo.cell_count;
}

/// Messages in a cell, in a small slot, in a large one; where slots are short, all are large.
constexpr std::size_t kShort = 8, kSmall = 128, kLarge = 8192;

TEST(ShmFifo, NumbersWrapWithoutHarm) {
  for (const auto& [credits, slot_bytes] :
       {std::pair{1U, kSmall}, std::pair{3U, kSmall}, std::pair{3U, kLarge}, std::pair{8U, kLarge},
        std::pair{65U, kSmall}}) {
    ShmMemory memory(credits, slot_bytes);
    const std::uint32_t before =
        slot_bytes == kLarge ? ShmFifo::kFewSmall + ShmFifo::kSmallCredits : 2 * credits;
    const std::uint32_t first = std::numeric_limits<std::uint32_t>::max() - 3 * credits - before;
    ShmSender sender(memory.fifo, first, ShmWay::few, ShmWay::few);
    ShmReceiver receiver(memory.fifo, first);
    // All small slots are used once the first ones were not enough.
    std::uint32_t filled = 0;
    for (int times = 0; times < 2; ++times) {
      std::uint64_t sent = 0;
      while (send(sender, sent, kSmall)) ++sent;
      for (std::uint64_t i = 0; i < sent; ++i) ASSERT_TRUE(receive(receiver, i, kSmall));
      filled += static_cast<std::uint32_t>(sent);
    }
    EXPECT_EQ(filled, before);
    for (std::uint64_t round = 0; round < 15; ++round) {
      const std::size_t bytes = std::min(std::array{kShort, kSmall, kLarge}[round % 3], slot_bytes);
      const std::uint64_t room = room_for(memory.fifo, bytes);
      // Credits of small messages come back in batches; messages with a slot bring all back.
      ASSERT_TRUE(send(sender, 1'000'000, 128) && receive(receiver, 1'000'000, 128)) << round;
      for (std::uint64_t i = 0; i < room; ++i) {
        const auto expected = i == 0 ? ShmReceiver::Next::none : ShmReceiver::Next::expected;
        EXPECT_EQ(receiver.next(bytes, round * 100), expected);
        ASSERT_TRUE(memory.contains(sender.acquire(bytes), bytes));
        ASSERT_TRUE(send(sender, round * 100 + i, bytes));
      }
      EXPECT_FALSE(send(sender, 0, bytes)) << "more than the credits";
      for (std::uint64_t i = 0; i < room; ++i)
        ASSERT_TRUE(receive(receiver, round * 100 + i, bytes)) << round;
    }
    EXPECT_FALSE(sender.broken());
  }
}

/// Messages run ahead of those of other sizes, each as far as its own room.
TEST(ShmFifo, MessagesOfEachSizeHaveRoomOfTheirOwn) {
  ShmMemory memory(2, kLarge);
  ShmSender sender(memory.fifo);
  ShmReceiver receiver(memory.fifo);
  std::mt19937_64 random(test_seed());
  std::deque<std::pair<std::uint64_t, std::size_t>> under_way;
  std::map<std::size_t, std::uint32_t> by_size, most;
  for (std::uint64_t value = 1; value <= 50'000; ++value) {
    // Streaks of one kind: all of its room is to be used up again and again.
    const std::size_t bytes = std::array{kShort, kSmall, kLarge}[value / 200 % 3];
    const bool sent = random() % 5 != 0 && send(sender, value, bytes);
    if (sent) {
      under_way.emplace_back(value, bytes);
      most[bytes] = std::max(most[bytes], ++by_size[bytes]);
      ASSERT_LE(under_way.size(), memory.fifo.cell_count);
    } else if (!under_way.empty()) {
      const auto [expected, length] = under_way.front();
      under_way.pop_front();
      ASSERT_TRUE(receive(receiver, expected, length)) << length;
      --by_size[length];
    }
  }
  EXPECT_EQ(most[kSmall], ShmFifo::kSmallCredits);
  EXPECT_EQ(most[kLarge], 2U);
  EXPECT_FALSE(sender.broken());
}

/// What goes there and comes back one by one needs no more memory than that: the other slots stay
/// untouched, in the caches and at all.
TEST(ShmFifo, NoMoreLargeSlotsAreUsedThanAreUnderWay) {
  constexpr std::uint32_t kCredits = 8;
  for (const std::uint32_t ahead : {1U, 2U, 5U, kCredits}) {
    ShmMemory memory(kCredits, kLarge);
    ShmSender sender(memory.fifo, 1, ShmWay::few, ShmWay::few);
    ShmReceiver receiver(memory.fifo);
    std::set<std::byte*> places;
    for (std::uint64_t round = 0; round < 100; ++round) {
      for (std::uint64_t i = 0; i < ahead; ++i) {
        places.insert(sender.acquire(kLarge));
        ASSERT_TRUE(send(sender, round * kCredits + i, kLarge));
      }
      for (std::uint64_t i = 0; i < ahead; ++i)
        ASSERT_TRUE(receive(receiver, round * kCredits + i, kLarge));
    }
    EXPECT_GE(places.size(), ahead);
    // It does not look each time which came back.
    EXPECT_LE(places.size(), std::min(ahead + 1, kCredits)) << ahead;
  }
}

/// Also when slots come back in between, of which one would go first.
TEST(ShmFifo, ThePlaceOfTheNextMessageStaysUntilItGoes) {
  ShmMemory memory(8, kLarge);
  ShmSender sender(memory.fifo);
  ShmReceiver receiver(memory.fifo);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(send(sender, i, kLarge));
  std::byte* place = sender.acquire(kLarge);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(receive(receiver, i, kLarge));
  EXPECT_EQ(sender.acquire(kLarge), place);
  const std::uint64_t value = 77;
  std::memcpy(place, &value, sizeof value);
  sender.commit(kLarge, value);
  EXPECT_TRUE(receive(receiver, value, kLarge));
}

TEST(ShmFifo, APlaceBeyondTheSlotsIsNeverUsed) {
  for (const std::size_t bytes : {kSmall, kLarge}) {
    ShmMemory memory(2, kLarge);
    ShmSender sender(memory.fifo);
    ShmReceiver receiver(memory.fifo);
    ASSERT_TRUE(send(sender, 7, bytes));
    const ShmSlots& slots = memory.fifo.slots[memory.fifo.size_of(bytes)];
    const auto check = [&](std::uint32_t cell, std::uint32_t number, std::uint32_t offset) {
      const ShmSlot slot{number, offset, {1, 7}};
      std::memcpy(memory.fifo.cells[cell].payload, &slot, sizeof slot);
      ASSERT_EQ(receiver.next(bytes, 7), ShmReceiver::Next::expected);
      EXPECT_GE(receiver.payload(bytes), slots.begin) << number;
      EXPECT_LE(receiver.payload(bytes) + bytes, slots.begin + slots.bytes()) << number;
    };
    for (const std::uint32_t number : {0U, 1U, 2U, 1'000'000U, ~0U, slots.count - 1})
      for (const std::uint32_t offset : {0U, 1U, 100'000U, ~0U}) check(0, number, offset);
    // Also where the number behind the last one is foreseen.
    receiver.release();
    ASSERT_TRUE(send(sender, 7, bytes));
    check(1, slots.count, 0);
  }
}

/// Where its receiver has to copy it, it goes to the slot whose credit it took.
TEST(ShmFifo, WhatIsLentHasASlotOfItsOwn) {
  for (const std::size_t bytes : {kSmall, kLarge}) {
    ShmMemory memory(4, kLarge);
    ShmSender sender(memory.fifo, 1, ShmWay::few, ShmWay::few);
    ShmReceiver receiver(memory.fifo);
    for (const std::uint64_t value : {1U, 2U}) ASSERT_TRUE(send(sender, value, bytes));
    const std::byte* place = sender.acquire(bytes);
    ASSERT_NE(place, nullptr);
    sender.lend({}, bytes, 3);
    ASSERT_TRUE(send(sender, 4, bytes));
    for (const std::uint64_t value : {1U, 2U}) ASSERT_TRUE(receive(receiver, value, bytes));
    ASSERT_EQ(receiver.next(bytes, 3), ShmReceiver::Next::lent);
    EXPECT_EQ(receiver.payload(bytes), place) << bytes;
    receiver.release();
    EXPECT_TRUE(receive(receiver, 4, bytes)) << bytes;
  }
}

/// Their receiver copies them there, so its cache has them. Also where other messages are spread.
TEST(ShmFifo, FewSlotsAreLeftToWhatIsLent) {
  for (const ShmWay way : {ShmWay::few, ShmWay::spread}) {
    ShmMemory memory(8, kLarge);
    ShmSender sender(memory.fifo, 1, ShmWay::few, way);
    ShmReceiver receiver(memory.fifo);
    std::set<std::uint32_t> filled;
    for (std::uint64_t value = 1; value < 50; ++value) {
      ASSERT_TRUE(sender.has_slot(kLarge));
      sender.lend({}, kLarge, value);
      ASSERT_EQ(receiver.next(kLarge, value), ShmReceiver::Next::lent);
      filled.insert(receiver.loan().slot.number);
      receiver.release();
    }
    EXPECT_LE(filled.size(), 3U);
  }
}

TEST(ShmFifo, ALengthThatChangesWhileAMessageIsReadDoesNoHarm) {
  ShmMemory memory(2, kLarge);
  ShmSender sender(memory.fifo);
  ShmReceiver receiver(memory.fifo);
  ASSERT_TRUE(send(sender, 7, kLarge));
  const ShmSlot slot{0, 0, {1, 0}};
  std::memcpy(memory.fifo.cells[0].payload, &slot, sizeof slot);
  ASSERT_EQ(receiver.next(kLarge, 7), ShmReceiver::Next::expected);
  (void)receiver.payload(kLarge);
  memory.fifo.cells[0].tag.store(shm_tag(1, 0));
  receiver.release();
  EXPECT_EQ(receiver.next(kLarge, 8), ShmReceiver::Next::none);
}

TEST(ShmFifo, NothingOverlaps) {
  for (const std::uint32_t credits : {1U, 2U, 7U}) {
    const ShmLayout layout{kLarge, credits};
    ShmMemory memory(credits, kLarge);
    // Writing every byte of one direction's payloads leaves the other direction as it was.
    ShmSender there(layout.fifo(memory.pages[0].bytes, 0));
    ShmSender back(layout.fifo(memory.pages[0].bytes, 1));
    std::vector<std::pair<std::byte*, std::size_t>> places;
    for (ShmSender* sender : {&there, &back}) {
      for (const std::size_t bytes : {ShmFifo::kSmallBytes, kLarge}) {
        for (std::uint32_t i = 0; i < std::min(credits, room_for(memory.fifo, bytes)); ++i) {
          places.emplace_back(sender->acquire(bytes), bytes);
          ASSERT_NE(places.back().first, nullptr);
          ASSERT_TRUE(memory.contains(places.back().first, bytes));
          std::memset(places.back().first, static_cast<int>(places.size()), bytes);
          sender->commit(bytes, i);
        }
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t at = 0; at < places[i].second; ++at)
        ASSERT_EQ(places[i].first[at], static_cast<std::byte>(i + 1));
    for (int direction : {0, 1}) {
      ShmReceiver receiver(layout.fifo(memory.pages[0].bytes, direction));
      for (const std::size_t bytes : {ShmFifo::kSmallBytes, kLarge}) {
        for (std::uint32_t i = 0; i < std::min(credits, room_for(memory.fifo, bytes)); ++i) {
          ASSERT_EQ(receiver.next(bytes, i), ShmReceiver::Next::expected);
          receiver.release();
        }
      }
    }
  }
}

TEST(ShmFifo, ALengthBeyondTheSlotIsNeverUsed) {
  ShmMemory memory(2);
  ShmReceiver receiver(memory.fifo);
  memory.fifo.cells[0].digest = 5;
  memory.fifo.cells[0].tag.store(shm_tag(1, 0x7fff'fff0));
  EXPECT_EQ(receiver.next(128, 5), ShmReceiver::Next::other);
  EXPECT_EQ(receiver.bytes(), 0x7fff'fff0);
}

TEST(ShmFifo, CreditsThatWereNeverSpentAreNotTaken) {
  for (const std::size_t bytes : {kShort, kSmall, kLarge}) {
    ShmMemory memory(2, kLarge);
    ShmSender sender(memory.fifo, 1, ShmWay::few, ShmWay::few);
    std::uint32_t sent = 0;
    while (send(sender, sent, bytes)) ++sent;
    EXPECT_EQ(sent,
              std::min(room_for(memory.fifo, bytes), bytes == kSmall ? ShmFifo::kFewSmall : 1000));
    ShmConsumed& consumed = *memory.fifo.consumed;
    (needs_slot(bytes) ? consumed.slots[memory.fifo.size_of(bytes)] : consumed.messages)
        .store(sent + 1);
    EXPECT_EQ(sender.acquire(bytes), nullptr);
    EXPECT_TRUE(sender.broken());
  }
}

}  // namespace
}  // namespace coll::test
