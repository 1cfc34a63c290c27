// SPDX-License-Identifier: Apache-2.0
// Communicators of the same processes share the memory of long messages, and none waits for
// another.
#include "transports/shm/shm_slot_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sys/memory/peer_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "sys/memory/shared_segments.hpp"
#include "transports/lone_rank.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {
namespace {

const Backend kShm{.name = "shm", .make = make_shm_transport};

/// Communicators of the same two ranks: each has a connection. Their messages are long.
class SharedSlots : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 32 << 10, kSlot = 4 * kBytes;
  static constexpr std::uint32_t kCredits = 4;
  /// So many ranks share a core that a slot holds one message, also where messages are spread.
  static constexpr double kCrowd = 64;

  struct Lane {
    /// Where its sender writes the message; null without a credit.
    std::byte* send(std::uint64_t value) {
      std::byte* place = sender->acquire(kBytes);
      if (place == nullptr) return nullptr;
      std::fill_n(place, kBytes, static_cast<std::byte>(value));
      sender->commit(kBytes, value);
      return place;
    }
    bool receive(std::uint64_t value) {
      const std::byte* message = receiver->peek(kBytes, value);
      if (message == nullptr) return false;
      const auto is_good = [&](std::byte one) { return one == static_cast<std::byte>(value); };
      const bool good = std::all_of(message, message + kBytes, is_good);
      receiver->release();
      return good;
    }

    std::unique_ptr<Connection> sender, receiver;
  };
  struct Communicator : Ranks, Lane {
    explicit Communicator(double ranks_per_core = 1) : Ranks(kShm) {
      static_cast<Lane&>(*this) = open_lane(0, ranks_per_core);
    }
    Lane open_lane(std::uint32_t lane, double ranks_per_core) {
      ConnectionSpec to_one{.peer = 1, .lane = lane}, to_zero{.peer = 0, .lane = lane};
      to_one.ranks_per_core = to_zero.ranks_per_core = ranks_per_core;
      to_one.slot_bytes = to_zero.slot_bytes = kSlot;
      to_one.credits = to_zero.credits = kCredits;
      Lane opened{open(0, to_one), open(1, to_zero)};
      EXPECT_TRUE(settle(*opened.sender, *opened.receiver));
      return opened;
    }
  };

  Communicator first_{kCrowd};
};

TEST_F(SharedSlots, AMessageLiesWhereOneOfAnotherCommunicatorLay) {
  Communicator a(kCrowd), b(kCrowd);
  const std::byte* place = first_.send(1);
  ASSERT_TRUE(first_.receive(1));
  EXPECT_EQ(a.send(2), place);
  ASSERT_TRUE(a.receive(2));
  EXPECT_EQ(b.send(3), place);
  EXPECT_NE(a.send(4), place) << "it is not read yet";
  ASSERT_TRUE(b.receive(3) && a.receive(4));
}

TEST_F(SharedSlots, WhoAsksAgainAndAgainGetsBlocksOfItsOwn) {
  Communicator other(kCrowd);
  const auto exchange = [](Lane& lane, std::uint64_t value) {
    const std::byte* place = lane.send(value);
    EXPECT_TRUE(lane.receive(value));
    return place;
  };
  int shared = 0;
  for (std::uint64_t value = 0; value < 100; ++value) {
    const std::byte* place = exchange(first_, value);
    const bool same = exchange(other, value) == place;
    shared += same ? 1 : 0;
    EXPECT_FALSE(same && value > 2 * kCredits) << "each message takes it from the other again";
  }
  EXPECT_GT(shared, 0);
}

TEST_F(SharedSlots, LanesOfOneCommunicatorTakeNoneFromEachOther) {
  Communicator a(kCrowd), b(kCrowd);
  Lane lane = a.open_lane(1, kCrowd);
  std::set<const std::byte*> places, others;
  for (std::uint64_t message = 0; message < 8 * kCredits; message += 2) {
    places.insert(a.send(message));
    others.insert(lane.send(message + 1));
    ASSERT_TRUE(a.receive(message) && lane.receive(message + 1));
  }
  for (const std::byte* place : places) EXPECT_FALSE(others.contains(place));
  EXPECT_TRUE(others.contains(b.send(9))) << "another communicator takes what was used last";
  EXPECT_TRUE(b.receive(9));
}

/// Before that, a message could only lie in memory that no other connection uses.
TEST_F(SharedSlots, LongMessagesWaitUntilThePeerSaysThatItReachesThem) {
  ConnectionSpec to_one{.peer = 1, .lane = 7}, to_zero{.peer = 0, .lane = 7};
  to_one.slot_bytes = to_zero.slot_bytes = kSlot;
  to_one.credits = to_zero.credits = kCredits;
  Lane lane{first_.open(0, to_one), first_.open(1, to_zero)};
  // Rank 1 dials, and does not look at the answer.
  ASSERT_TRUE(eventually([&] {
    first_.transports[0]->poll();
    return lane.sender->ready();
  }));
  std::byte small[1000] = {};
  EXPECT_TRUE(lane.sender->send(small, sizeof small, 1));
  EXPECT_EQ(lane.send(2), nullptr);
  ASSERT_TRUE(first_.settle(*lane.sender, *lane.receiver));
  const std::byte* place = lane.send(2);
  ASSERT_NE(place, nullptr);
  EXPECT_TRUE(SharedSegments::find(place, kBytes));
  EXPECT_TRUE(lane.receiver->receive(small, sizeof small, 1) && lane.receive(2));
}

/// Such memory could not be read in place.
TEST_F(SharedSlots, NoneLieInTwoWindowsOfTheArena) {
  constexpr std::size_t kPiece = 64 << 10, kWindow = SharedPlace::kWindow;
  SharedArena* const arena = *SharedArena::of_this_process();
  std::vector<SharedArena::OwnedBlock> filled;
  if (arena->size() < 4 * kWindow) GTEST_SKIP() << "the arena is short";
  filled.push_back(SharedArena::own(kWindow - (32 << 20), ArenaUse::calls));
  ASSERT_TRUE(filled.back());
  // Up to where the next blocks would lie on both sides of the border.
  const auto offset = [&] {
    return SharedSegments::find(filled.back().get(), kPiece)->offset % kWindow;
  };
  while (offset() != kWindow - 4 * kPiece) {
    filled.push_back(SharedArena::own(kPiece, ArenaUse::calls));
    ASSERT_TRUE(filled.back() && filled.size() < 1000);
  }
  Communicator others[2]{Communicator(kCrowd), Communicator(kCrowd)};
  for (Communicator& other : others) {
    for (std::uint64_t message = 0; message < kCredits; ++message)
      EXPECT_TRUE(SharedSegments::find(other.send(message), kBytes)) << message;
    for (std::uint64_t message = 0; message < kCredits; ++message)
      EXPECT_TRUE(other.receive(message));
  }
}

/// A connection has slots of its own, too.
TEST_F(SharedSlots, MessagesNeedNoRoomInTheArena) {
  SharedArena* const arena = *SharedArena::of_this_process();
  std::vector<SharedArena::OwnedBlock> filled;
  for (std::size_t bytes = arena->size() / 4; bytes >= kSlot; bytes /= 2) {
    while (auto block = SharedArena::own(bytes, ArenaUse::messages))
      filled.push_back(std::move(block));
  }
  std::vector<std::unique_ptr<Communicator>> others;  // the pool has blocks for a few
  bool shared = true;
  while (shared && others.size() < 20) {
    Communicator& other = *others.emplace_back(std::make_unique<Communicator>(kCrowd));
    for (std::uint64_t message = 0; message < kCredits; ++message) {
      const std::byte* const place = other.send(message);
      ASSERT_NE(place, nullptr);
      shared = SharedSegments::find(place, kBytes).has_value();
    }
    for (std::uint64_t message = 0; message < kCredits; ++message)
      EXPECT_TRUE(other.receive(message));
  }
  EXPECT_FALSE(shared);
  EXPECT_TRUE(first_.send(1) && first_.receive(1));
}

/// However many communicators there are, and whatever is under way.
TEST_F(SharedSlots, NoBlockIsWrittenBeforeItIsRead) {
  constexpr std::size_t kCommunicators = 8, kMost = 4;
  std::vector<std::unique_ptr<Communicator>> all;
  for (std::size_t i = 0; i < kCommunicators; ++i)
    all.push_back(std::make_unique<Communicator>(kCrowd));
  std::mt19937_64 random(test_seed());
  std::vector<std::deque<std::uint64_t>> under_way(kCommunicators);
  std::set<const std::byte*> places;
  std::size_t now = 0;
  for (std::uint64_t value = 1; value <= 3000; ++value) {
    // Streaks of one communicator, then of another.
    const std::size_t at = value / 40 * 7 % kCommunicators;
    if (value == 40 * kCommunicators) {
      // Each may look late which of its own came back.
      EXPECT_LE(places.size(), kMost + kCommunicators);
    }
    if (random() % 2 == 0 && now < kMost) {
      const std::byte* place = all[at]->send(value);
      ASSERT_EQ(place != nullptr, under_way[at].size() < kCredits);
      if (place == nullptr) continue;
      places.insert(place);
      under_way[at].push_back(value);
      ++now;
    } else if (!under_way[at].empty()) {
      ASSERT_TRUE(all[at]->receive(under_way[at].front()));
      under_way[at].pop_front();
      --now;
    }
  }
  EXPECT_LE(places.size(), kCredits * kCommunicators);
}

TEST_F(SharedSlots, WhatIsNotReadOutlivesItsSender) {
  auto ended = std::make_unique<Communicator>(kCrowd);
  Communicator other(kCrowd);
  const std::byte* unread[] = {ended->send(1), ended->send(2)};
  ended->sender.reset();
  std::set<const std::byte*> places;
  for (std::uint64_t value = 0; value < 20; ++value) {
    places.insert(other.send(value));
    if (value % 4 != 3) continue;
    for (std::uint64_t i = value - 3; i <= value; ++i) ASSERT_TRUE(other.receive(i));
  }
  EXPECT_FALSE(places.contains(unread[0]) || places.contains(unread[1]));
  Communicator next(kCrowd);
  EXPECT_TRUE(ended->receive(1));
  EXPECT_TRUE(ended->receive(2));
  for (std::uint64_t i = 0; i < kCredits; ++i) places.insert(other.send(i));
  for (std::uint64_t i = 0; i < kCredits; ++i) places.insert(next.send(i));
  EXPECT_TRUE(places.contains(unread[0]) && places.contains(unread[1])) << "they are free again";
}

/// Also while messages are spread over the blocks, and lie somewhere inside.
TEST_F(SharedSlots, ManyMessagesInARowArriveWhole) {
  Communicator one;
  std::set<const std::byte*> places;
  for (std::uint64_t value = 0; value < (std::size_t{16} << 20) / kBytes; ++value) {
    places.insert(one.send(value));
    ASSERT_TRUE(one.receive(value));
  }
  EXPECT_GT(places.size(), kCredits) << "a trial spreads them";
}

/// One thread drives each communicator, and takes the blocks that the others leave.
TEST_F(SharedSlots, ThreadsTakeThemFromEachOther) {
  constexpr std::uint64_t kMessages = 2000;
  std::vector<std::unique_ptr<Communicator>> all;
  for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<Communicator>());
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (auto& one : all) {
    threads.emplace_back([&] {
      for (std::uint64_t value = 0; value < kMessages; value += 2) {
        const auto sent = [&](std::uint64_t of) {
          return eventually([&] { return one->send(of) != nullptr; });
        };
        if (!sent(value) || !sent(value + 1)) return;
        if (!one->receive(value) || !one->receive(value + 1)) return;
      }
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 3);
}

TEST_F(SharedSlots, AChildMadeByForkBeginsWithout) {
  const int owners[2] = {};
  const ShmSlots large{.stride = kSlot, .count = kCredits};
  const MemoryProof peer = memory_proof();
  const auto pool_of = [&](int owner) {
    return ShmSlotPool::join(peer, large, 0, &owners[owner]).pool;
  };
  const auto parents = pool_of(0);
  ASSERT_NE(parents, nullptr);
  const pid_t child = in_child([&] {
    const auto own = pool_of(0);
    return own && own != parents && pool_of(1) == own;
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST_F(SharedSlots, NotByWhoProvesNothingNorOfVeryLongSlots) {
  const int owner = 0;
  for (const auto& [peer, bytes] :
       {std::pair{MemoryProof(), kBytes}, std::pair{memory_proof(), std::size_t{64} << 20}}) {
    EXPECT_EQ(ShmSlotPool::join(peer, {.stride = bytes, .count = 1}, 0, &owner).pool, nullptr);
  }
}

}  // namespace
}  // namespace coll::test
