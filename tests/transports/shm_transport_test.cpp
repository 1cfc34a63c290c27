// SPDX-License-Identifier: Apache-2.0
// Shm does, and what only shm has to withstand.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
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
  bad = good;
  bad.crowded = 1;  // whose memory is larger
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
  const auto door = ShmDoor::open();
  ASSERT_TRUE(door.ok());
  const ShmDescriptor* const here = &door->descriptor;
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

/// A wait for credits would be a change of processes. The dialling end has made the segment.
TEST(ShmMemory, ShortMessagesRunFurtherAheadIfTheDiallingRankSharesItsCore) {
  for (const bool crowded : {true, false}) {
    Ranks ranks(kShm);
    ConnectionSpec to_one = kToOne, to_zero = kToZero;
    to_zero.ranks_per_core = crowded ? 2 : 1;  // of rank 1, which dials
    to_one.ranks_per_core = crowded ? 1 : 2;
    auto a = ranks.open(0, to_one);
    auto b = ranks.open(1, to_zero);
    ASSERT_TRUE(ranks.settle(*a, *b));
    for (const auto& [from, to] : {std::pair(a.get(), b.get()), std::pair(b.get(), a.get())}) {
      for (int round = 0; round < 3; ++round) {
        std::uint64_t sent = 0, value = 0;
        while (from->send(reinterpret_cast<const std::byte*>(&sent), sizeof sent, 0)) ++sent;
        EXPECT_EQ(sent, crowded ? 128U : 64U);
        for (std::uint64_t i = 0; i < sent; ++i) {
          ASSERT_TRUE(to->receive(reinterpret_cast<std::byte*>(&value), sizeof value, 0));
          ASSERT_EQ(value, i);
        }
      }
    }
  }
}

/// They share its cache, which is the reason to spread.
TEST(ShmMemory, RanksThatShareACoreSpreadOverLess) {
  constexpr std::size_t kSlot = 64 << 10, kCredits = 4;
  for (const std::size_t bytes : {std::size_t{4000}, std::size_t{32} << 10}) {
    for (const double ranks_per_core : {1, 2, 16}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, " << ranks_per_core << " ranks");
      Ranks ranks(kShm);
      ConnectionSpec to_one = kToOne, to_zero = kToZero;
      to_one.slot_bytes = to_zero.slot_bytes = kSlot;
      to_one.credits = to_zero.credits = kCredits;
      to_one.ranks_per_core = to_zero.ranks_per_core = ranks_per_core;
      auto a = ranks.open(0, to_one);
      auto b = ranks.open(1, to_zero);
      ASSERT_TRUE(ranks.settle(*a, *b));
      const std::vector<std::byte> message(bytes, std::byte{1});
      std::set<const std::byte*> places;
      // A trial comes after 4 MiB, and spreads up to 4 MiB.
      for (std::size_t sent = 0; sent < std::size_t{16} << 20; sent += bytes) {
        ASSERT_TRUE(a->send(message.data(), bytes, sent));
        const std::byte* place = b->peek(bytes, sent);
        ASSERT_NE(place, nullptr);
        places.insert(place);
        b->release();
      }
      const std::size_t over = ShmSlotTrial::spread_bytes(ranks_per_core);
      const bool is_small = bytes <= ShmFifo::kSmallBytes;
      if (over <= ShmSlotTrial::few_bytes()) {
        EXPECT_LE(places.size(), is_small ? ShmFifo::kFewSmall : kCredits);
      } else if (is_small) {
        EXPECT_EQ(places.size(), over / ShmFifo::kSmallStride);
      } else {
        EXPECT_EQ(places.size(), kCredits * (std::min(kSlot, over / kCredits) / bytes));
      }
    }
  }
}

}  // namespace
}  // namespace coll::test
