// SPDX-License-Identifier: Apache-2.0
// Shm does, and what only shm has to withstand.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "registered_resource.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_memory.hpp"
#include "sys/net/unix_socket.hpp"
#include "transports/conformance/landing_conformance.hpp"
#include "transports/conformance/lending_conformance_kept.hpp"
#include "transports/conformance/transport_conformance.hpp"
#include "transports/shm/shm_handshake.hpp"

namespace coll::test {
namespace {

Fd knock(std::string_view descriptor) {
  auto parsed = ShmDescriptor::parse(descriptor);
  if (!parsed.ok()) return {};
  auto socket = unix_dial(parsed->socket_name);
  return socket.ok() && socket->has_value() ? *std::move(*socket) : Fd();
}

const Backend kShm{.name = "shm",
                   .make = make_shm_transport,
                   .can_lend = true,
                   .lends = can_read_memory_of(memory_proof()),  // a sandbox may forbid it
                   .knock = knock};

Backend registered() {
  Backend backend = kShm;
  backend.name = "registered";
  // Pieces of few registered ones: to register each would take its time under an emulator.
  static std::pmr::synchronized_pool_resource pool({.largest_required_pool_block = 1 << 20},
                                                   RegisteredResource::of_process());
  backend.memory = &pool;
  backend.lends = kShm.lends || opens_descriptors();
  return backend;
}

Backend in_arena() {
  Backend backend = kShm;
  backend.name = "arena";
  backend.memory = ArenaResource::of_process();
  backend.lends = true;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance, testing::Values(kShm, registered()),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(Shm, LendingConformance, testing::Values(kShm, registered(), in_arena()),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(Shm, LandingConformance, testing::Values(in_arena()), name_of_backend);

constexpr ConnectionSpec kToOne{.peer = 1, .lane = 0, .slot_bytes = 64, .credits = 1};
constexpr ConnectionSpec kToZero{.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1};

/// A hello that rank 0 would take, but for what the test spoils.
ShmHello good_hello(const Ranks& ranks) {
  return ShmHello::of(spec_of(1, 2, ranks.job), kToZero);
}

TEST(ShmStrangers, EverySpoiledHelloIsDropped) {
  Ranks ranks(kShm);
  auto a = ranks.open(0, kToOne);
  const std::size_t bytes = ShmLayout{64, 1}.segment_bytes();
  const auto memory = MemorySegment::create("test", bytes);
  const auto other_size = MemorySegment::create("test", bytes + 4096);
  const Fd shrinkable(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(memory.ok() && other_size.ok() && shrinkable);
  ASSERT_EQ(ftruncate(shrinkable.get(), static_cast<off_t>(bytes)), 0);

  std::vector<Fd> sockets;  // they stay open, and silent
  const auto call = [&](const ShmHello& hello, std::size_t length, int passed) {
    sockets.push_back(knock(ranks.transports[0]->descriptor()));
    const auto sent = unix_send(sockets.back(), coll::bytes_of(hello).first(length), {passed});
    EXPECT_TRUE(sent.ok() && *sent);
    for (int turn = 0; turn < 5; ++turn) ranks.poll();
    EXPECT_FALSE(a->ready());
    EXPECT_TRUE(a->status().ok()) << a->status().text();
  };
  const ShmHello good = good_hello(ranks);
  const int good_memory = memory->get();
  call(good, sizeof good / 2, good_memory);
  call(good, sizeof good, -1);
  call(good, sizeof good, other_size->get());
  call(good, sizeof good, shrinkable.get());
  call(good, sizeof good, 0);
  ShmHello bad = good;
  bad.magic ^= 1;
  call(bad, sizeof bad, good_memory);
  bad = good;
  bad.job[1] ^= 1;
  call(bad, sizeof bad, good_memory);
  bad = good;
  bad.from = 2;
  call(bad, sizeof bad, good_memory);
  bad = good;
  bad.to = 1;
  call(bad, sizeof bad, good_memory);

  // The good one, which shows that it was for these reasons.
  sockets.push_back(knock(ranks.transports[0]->descriptor()));
  ASSERT_TRUE(unix_send(sockets.back(), coll::bytes_of(good), {good_memory}).ok());
  ranks.poll();
  EXPECT_TRUE(a->ready());
}

TEST(ShmStrangers, AFloodOfTheSilentDoesNotKeepARankOut) {
  Ranks ranks(kShm);
  std::vector<Fd> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(knock(ranks.transports[0]->descriptor()));
  auto a = ranks.open(0, kToOne);
  auto b = ranks.open(1, kToZero);
  for (int i = 0; i < 200; ++i) flood.push_back(knock(ranks.transports[0]->descriptor()));
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready()) << b->status().text();
}

TEST(ShmAcceptance, HostUserAndNamespaceMustBeTheSame) {
  const auto here = ShmDescriptor::of_this_process();
  ASSERT_TRUE(here.ok());
  ShmDescriptor peer = *here;
  peer.socket_name = "another";
  EXPECT_TRUE(here->accepts(peer).ok());
  std::vector<ShmDescriptor> others(3, peer);
  others[0].boot = "another";
  others[1].net_space = "another";
  others[2].user += 1;
  for (const ShmDescriptor& other : others) {
    EXPECT_EQ(here->accepts(other).code(), Code::unreachable);
    EXPECT_EQ(other.accepts(*here).code(), Code::unreachable);
    const auto parsed = ShmDescriptor::parse(other.text());
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(here->accepts(*parsed).ok());
  }
}

TEST(ShmMemory, AReadyConnectionHoldsNoDescriptorAndHardlyAnyMemory) {
  Ranks ranks(kShm);
  // What is kept of a peer, whatever connections there are to it.
  auto first = ranks.open(0, kToOne);
  auto its_peer = ranks.open(1, kToZero);
  ASSERT_TRUE(ranks.settle(*first, *its_peer));
  const std::ptrdiff_t before = open_files();
  const auto resident = [] {
    std::size_t total = 0, pages = 0;
    FILE* file = std::fopen("/proc/self/statm", "re");
    if (file == nullptr || std::fscanf(file, "%zu %zu", &total, &pages) != 2) pages = 0;
    if (file != nullptr) std::fclose(file);
    return pages * 4096;
  };
  const std::size_t memory_before = resident();
  ConnectionSpec to_one = kToOne, to_zero = kToZero;
  to_one.lane = to_zero.lane = 1;
  to_one.slot_bytes = to_zero.slot_bytes = 64 << 20;
  to_one.credits = to_zero.credits = 8;
  auto a = ranks.open(0, to_one);
  auto b = ranks.open(1, to_zero);
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready());
  EXPECT_EQ(open_files(), before);
  // Of 2 GiB mapped. An emulator's own tables of them take some 10 MiB.
  EXPECT_LT(resident(), memory_before + (64 << 20));
}

/// Ranks that share cores have many connections, and nothing to gain by more slots.
TEST(ShmMemory, CrowdedConnectionsSpreadOverNoMoreSlots) {
  for (const std::size_t bytes : {std::size_t{4000}, std::size_t{32} << 10}) {
    for (const bool crowded : {true, false}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, crowded " << crowded);
      Ranks ranks(kShm);
      ConnectionSpec to_one = kToOne, to_zero = kToZero;
      to_one.slot_bytes = to_zero.slot_bytes = 64 << 10;
      to_one.credits = to_zero.credits = 4;
      to_one.crowded = to_zero.crowded = crowded;
      auto a = ranks.open(0, to_one);
      auto b = ranks.open(1, to_zero);
      ASSERT_TRUE(ranks.settle(*a, *b));
      const std::vector<std::byte> message(bytes, std::byte{1});
      std::set<const std::byte*> places;
      // A trial comes after 4 MiB, and spreads 2 MiB and more.
      for (std::size_t sent = 0; sent < std::size_t{8} << 20; sent += bytes) {
        ASSERT_TRUE(a->send(message.data(), bytes, sent));
        const std::byte* place = b->peek(bytes, sent);
        ASSERT_NE(place, nullptr);
        places.insert(place);
        b->release();
      }
      const std::size_t few = bytes > ShmFifo::kSmallBytes ? 4 : ShmFifo::kSmallCredits;
      EXPECT_EQ(places.size() <= few, crowded) << places.size();
    }
  }
}

/// Communicators of the same two ranks: each has a connection. Their messages are long.
class SharedSlots : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 32 << 10, kSlot = 4 * kBytes;
  static constexpr std::uint32_t kCredits = 4;

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
    /// Where `crowded`, messages are not spread over their slots.
    explicit Communicator(bool crowded = false) : Ranks(kShm), Lane(open_lane(0, crowded)) {}
    Lane open_lane(std::uint32_t lane, bool crowded) {
      ConnectionSpec to_one = kToOne, to_zero = kToZero;
      to_one.lane = to_zero.lane = lane;
      to_one.crowded = to_zero.crowded = crowded;
      to_one.slot_bytes = to_zero.slot_bytes = kSlot;
      to_one.credits = to_zero.credits = kCredits;
      Lane opened{open(0, to_one), open(1, to_zero)};
      EXPECT_TRUE(settle(*opened.sender, *opened.receiver));
      return opened;
    }
  };

  /// Has slots of its own.
  Communicator first_;
};

TEST_F(SharedSlots, AMessageLiesWhereOneOfAnotherCommunicatorLay) {
  Communicator a(true), b(true);
  const std::byte* own = first_.send(1);
  ASSERT_TRUE(first_.receive(1));
  const std::byte* place = a.send(2);
  ASSERT_TRUE(a.receive(2));
  EXPECT_EQ(b.send(3), place);
  const std::byte* second = a.send(4);
  EXPECT_NE(second, place) << "it is not read yet";
  ASSERT_TRUE(b.receive(3) && a.receive(4));
  for (const std::byte* one : {own, static_cast<const std::byte*>(first_.send(5))}) {
    EXPECT_NE(place, one);
    EXPECT_NE(second, one);
  }
  EXPECT_TRUE(first_.receive(5));
}

TEST_F(SharedSlots, LanesOfOneCommunicatorTakeNoneFromEachOther) {
  Communicator a(true), b(true);
  Lane lane = a.open_lane(1, true);
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

/// However many communicators there are, and whatever is under way.
TEST_F(SharedSlots, NoBlockIsWrittenBeforeItIsRead) {
  constexpr std::size_t kCommunicators = 8, kMost = 4;  // half of the blocks: some are always free
  std::vector<std::unique_ptr<Communicator>> all;
  for (std::size_t i = 0; i < kCommunicators; ++i)
    all.push_back(std::make_unique<Communicator>(true));
  std::mt19937_64 random(test_seed());
  std::vector<std::deque<std::uint64_t>> under_way(kCommunicators);
  std::set<const std::byte*> places;
  std::size_t now = 0;
  for (std::uint64_t value = 1; value <= 3000; ++value) {
    // Streaks of one communicator, then of another.
    const std::size_t at = value / 40 * 7 % kCommunicators;
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
  // Each may look late which of its own came back.
  EXPECT_LE(places.size(), kMost + kCommunicators);
}

TEST_F(SharedSlots, WhatIsNotReadOutlivesItsSender) {
  auto ended = std::make_unique<Communicator>(true);
  Communicator other(true);
  const std::byte* unread[] = {ended->send(1), ended->send(2)};
  ended->sender.reset();
  std::set<const std::byte*> places;
  for (std::uint64_t value = 0; value < 20; ++value) {
    places.insert(other.send(value));
    if (value % 4 != 3) continue;
    for (std::uint64_t i = value - 3; i <= value; ++i) ASSERT_TRUE(other.receive(i));
  }
  EXPECT_FALSE(places.contains(unread[0]) || places.contains(unread[1]));
  Communicator next(true);
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
  const auto shares = [&](int owner) {
    return ShmSlotPool::join(memory_proof(), kSlot, &owners[owner]).shares;
  };
  EXPECT_TRUE(shares(0)) << "the first owner is another one";
  const MemoryProof parents = memory_proof();
  const pid_t child = in_child([&] {
    const auto first = ShmSlotPool::join(parents, kSlot, &owners[0]);
    return first.pool && !first.shares && ShmSlotPool::join(parents, kSlot, &owners[1]).shares;
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST_F(SharedSlots, NotByWhoProvesNothingNorOfVeryLongSlots) {
  const int owners[2] = {};
  for (const auto& [peer, bytes] :
       {std::pair{MemoryProof(), kBytes}, std::pair{memory_proof(), std::size_t{64} << 20}}) {
    const auto first = ShmSlotPool::join(peer, bytes, &owners[0]);
    EXPECT_FALSE(first.shares || ShmSlotPool::join(peer, bytes, &owners[1]).shares);
  }
}

}  // namespace
}  // namespace coll::test
