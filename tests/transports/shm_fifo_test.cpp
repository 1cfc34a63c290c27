// SPDX-License-Identifier: Apache-2.0
// tests/transports/: every transport keeps the contract of transport.hpp. This file: the FIFO of
// shm where its numbers wrap, and where the other side writes nonsense.
#include "transports/shm/shm_fifo.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "test_seed.hpp"
#include "transports/shm/shm_connection.hpp"

namespace coll::test {
namespace {

/// A FIFO over memory of this process.
struct Memory {
  explicit Memory(std::uint32_t credits, std::size_t slot_bytes = 128)
      : layout{slot_bytes, credits},
        pages(layout.segment_bytes() / sizeof(Page) + 1),
        fifo(layout.fifo(pages[0].bytes, 0)) {}

  [[nodiscard]] bool contains(const std::byte* place, std::size_t bytes) const {
    const auto* begin = reinterpret_cast<const std::byte*>(pages.data());
    return place >= begin && place + bytes <= begin + layout.segment_bytes();
  }

  struct alignas(4096) Page {
    std::byte bytes[4096] = {};
  };
  ShmLayout layout;
  std::vector<Page> pages;
  ShmFifo fifo;
};

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
  return needs_slot(bytes) ? fifo.slots[fifo.size_of(bytes)].count : fifo.cell_count();
}

TEST(ShmFifo, NumbersWrapWithoutHarm) {
  for (const std::uint32_t credits : {1U, 3U, 8U, 65U}) {
    Memory memory(credits);
    const std::uint32_t first = std::numeric_limits<std::uint32_t>::max() - 3 * credits;
    ShmSender sender(memory.fifo, first);
    ShmReceiver receiver(memory.fifo, first);
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::size_t bytes = round % 2 == 0 ? 8 : 128;
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

/// Small messages run ahead of large ones, and the other way round, each as far as its own room.
TEST(ShmFifo, SmallAndLargeMessagesHaveRoomOfTheirOwn) {
  Memory memory(2);
  ShmSender sender(memory.fifo);
  ShmReceiver receiver(memory.fifo);
  std::mt19937_64 random(test_seed());
  std::deque<std::pair<std::uint64_t, std::size_t>> under_way;
  std::uint32_t slots = 0;
  for (std::uint64_t value = 1; value <= 20'000; ++value) {
    const std::size_t bytes = random() % 2 == 0 ? 8 : 128;
    const bool sent = random() % 3 != 0 && send(sender, value, bytes);
    if (sent) {
      under_way.emplace_back(value, bytes);
      slots += needs_slot(bytes) ? 1 : 0;
      ASSERT_LE(slots, 2U);
      ASSERT_LE(under_way.size(), memory.fifo.cell_count());
    } else if (!under_way.empty()) {
      const auto [expected, length] = under_way.front();
      under_way.pop_front();
      ASSERT_TRUE(receive(receiver, expected, length));
      slots -= needs_slot(length) ? 1 : 0;
    }
  }
  EXPECT_FALSE(sender.broken());
}

TEST(ShmFifo, NothingOverlaps) {
  for (const std::uint32_t credits : {1U, 2U, 7U}) {
    const ShmLayout layout{192, credits};
    Memory memory(credits, 192);
    // Writing every byte of one direction's payloads leaves the other direction as it was.
    ShmSender there(layout.fifo(memory.pages[0].bytes, 0));
    ShmSender back(layout.fifo(memory.pages[0].bytes, 1));
    std::vector<std::byte*> places;
    for (ShmSender* sender : {&there, &back}) {
      for (std::uint32_t i = 0; i < credits; ++i) {
        places.push_back(sender->acquire(192));
        ASSERT_NE(places.back(), nullptr);
        ASSERT_TRUE(memory.contains(places.back(), 192));
        std::memset(places.back(), static_cast<int>(places.size()), 192);
        sender->commit(192, i);
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t at = 0; at < 192; ++at)
        ASSERT_EQ(places[i][at], static_cast<std::byte>(i + 1));
    for (int direction : {0, 1}) {
      ShmReceiver receiver(layout.fifo(memory.pages[0].bytes, direction));
      for (std::uint32_t i = 0; i < credits; ++i) {
        ASSERT_EQ(receiver.next(192, i), ShmReceiver::Next::expected);
        receiver.release();
      }
    }
  }
}

TEST(ShmFifo, ALengthBeyondTheSlotIsNeverUsed) {
  Memory memory(2);
  ShmReceiver receiver(memory.fifo);
  memory.fifo.cells[0].digest = 5;
  memory.fifo.cells[0].tag.store(shm_tag(1, 0x7fff'fff0));
  EXPECT_EQ(receiver.next(128, 5), ShmReceiver::Next::other);
  EXPECT_EQ(receiver.bytes(), 0x7fff'fff0);
}

TEST(ShmFifo, CreditsThatWereNeverSpentAreNotTaken) {
  for (const bool slots : {false, true}) {
    Memory memory(2);
    ShmSender sender(memory.fifo);
    const std::size_t bytes = slots ? 128 : 8;
    const std::uint32_t room = room_for(memory.fifo, bytes);
    for (std::uint64_t i = 0; i < room; ++i) ASSERT_TRUE(send(sender, i, bytes));
    (slots ? memory.fifo.consumed->slots[1] : memory.fifo.consumed->messages).store(room + 1);
    EXPECT_EQ(sender.acquire(bytes), nullptr);
    EXPECT_TRUE(sender.broken());
  }
}

}  // namespace
}  // namespace coll::test
