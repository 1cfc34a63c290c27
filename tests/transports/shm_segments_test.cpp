// SPDX-License-Identifier: Apache-2.0
// What shm lends out of registered memory, what it does where that cannot be read in place, and
// what it writes into the arena of its peer.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "registered_resource.hpp"
#include "sys/memory/mapped_file.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_memory.hpp"
#include "transport_backend.hpp"

namespace coll::test {
namespace {

constexpr std::size_t kShort = 1024;     ///< long enough to be read in place, not to be fetched
constexpr std::size_t kLong = 64 << 10;  ///< long enough for anything

using Payload = std::pmr::vector<std::byte>;

Payload registered(int value, std::size_t bytes) {
  return Payload(bytes, static_cast<std::byte>(value), RegisteredResource::of_process());
}

/// Two ranks of this process that know what they reach of each other.
class ShmSegments : public testing::Test, public Pair {
 protected:
  ShmSegments() : Pair({.name = "shm", .make = make_shm_transport}, kLong) {}
  void SetUp() override {
    if (!opens_descriptors()) GTEST_SKIP() << "the kernel shows no descriptors of processes";
    ASSERT_TRUE(ready);
    const Payload word(kShort);
    Payload got(kShort);
    ASSERT_TRUE(sender().send(word.data(), word.size(), 0));
    ASSERT_TRUE(receiver().receive(got.data(), got.size(), 0));
    ASSERT_NE(sender().acquire(kShort), nullptr);
  }

  Connection& sender() { return *ends[0]; }
  Connection& receiver() { return *ends[1]; }
  Lending& lender() { return *sender().lending(); }
  bool lends(const Payload& data) {
    return data.size() >= lender().least_loan() &&
           lender().lends(data.data(), data.size(), Fetch::always);
  }
  bool lend(const Payload& data) { return lender().lend(data.data(), data.size(), 1); }
  bool receives(int value, std::size_t bytes) {
    Payload got(bytes);
    return receiver().receive(got.data(), bytes, 1) &&
           got == Payload(bytes, static_cast<std::byte>(value));
  }
};

TEST_F(ShmSegments, RegisteredMemoryIsReadWhereItLies) {
  Payload data = registered(1, kShort);
  ASSERT_TRUE(lends(data) && lend(data));
  const std::byte* seen = receiver().peek(kShort, 1);
  ASSERT_NE(seen, nullptr);
  EXPECT_NE(seen, data.data()) << "it is mapped again";
  EXPECT_EQ(std::memcmp(seen, data.data(), kShort), 0);
  std::ranges::fill(data, std::byte{2});
  EXPECT_EQ(std::memcmp(seen, data.data(), kShort), 0) << "and not copied";
  receiver().release();
  EXPECT_TRUE(all_flushed(sender()));
}

TEST_F(ShmSegments, OnlyRegisteredMemoryIs) {
  const Payload own(kShort);
  EXPECT_FALSE(lends(own));
  Payload data = registered(1, 2 * kShort);
  EXPECT_TRUE(lender().lends(data.data() + kShort, kShort, Fetch::never));
  EXPECT_FALSE(lender().lends(data.data() + kShort, kShort + 1, Fetch::never));
  ASSERT_TRUE(SharedSegments::remove(data.data()).ok());
  EXPECT_FALSE(lends(data));
}

/// Each gets the number of the descriptor, and perhaps the address, of the last.
TEST_F(ShmSegments, WhatComesAndGoesIsNeverMistaken) {
  for (int round = 1; round < 100; ++round) {
    const Payload data = registered(round, kShort);
    ASSERT_TRUE(lends(data) && lend(data));
    ASSERT_TRUE(receives(round, kShort)) << round;
    ASSERT_TRUE(all_flushed(sender()));
    ASSERT_EQ(mappings_of_tests(), 2U) << "the sender's and the receiver's; older ones are gone";
  }
}

/// A segment that is promised but cannot be mapped is no reason to fail.
class ShmWrongSegments : public ShmSegments {
 protected:
  /// Memory that is said to lie at `offset` of `file`.
  void expect_fetched(Fd file, std::uint64_t offset) {
    const Payload data(kLong, std::byte{7});
    ASSERT_TRUE(SharedSegments::add(data.data(), kLong, std::move(file), offset).ok());
    ASSERT_TRUE(lends(data) && lend(data));
    EXPECT_TRUE(receives(7, kLong)) << receiver().status().text();
    EXPECT_TRUE(SharedSegments::remove(data.data()).ok());
  }
  void SetUp() override {
    ShmSegments::SetUp();
    if (!can_read_memory_of(memory_proof())) GTEST_SKIP() << "the kernel forbids to fetch";
  }
};

TEST_F(ShmWrongSegments, AreFetchedInstead) {
  const auto sealed = MemorySegment::create("coll-test", kLong);
  ASSERT_TRUE(sealed.ok());
  expect_fetched(Fd(::dup(sealed->get())), 1);
  expect_fetched(Fd(::dup(sealed->get())), ~std::uint64_t{0} - kLong);
  Fd loose(::memfd_create("coll-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(loose.get(), kLong), 0);
  expect_fetched(std::move(loose), 0);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  expect_fetched(Fd(pipe[0]), 0);
  expect_fetched(Fd(pipe[1]), 0);
}

TEST_F(ShmWrongSegments, ADescriptorThatIsGoneIsAFailureOnlyWhereTheMemoryIsToo) {
  for (const bool gone : {false, true}) {
    void* memory =
        ::mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* data = static_cast<std::byte*>(memory);
    Fd file(::memfd_create("coll-test", MFD_CLOEXEC));
    const int number = file.get();
    ASSERT_TRUE(SharedSegments::add(data, kLong, std::move(file), 0).ok());
    ASSERT_TRUE(lender().lends(data, kLong, Fetch::always) && lender().lend(data, kLong, 1));
    ::close(number);
    if (gone) ::munmap(memory, kLong);
    EXPECT_EQ(receives(0, kLong), !gone);
    EXPECT_EQ(receiver().status().ok(), !gone);
    // What is closed here is nobody's by then.
    EXPECT_TRUE(SharedSegments::remove(data).ok());
    if (!gone) ::munmap(memory, kLong);
  }
  EXPECT_EQ(receiver().status().rank(), 0);
  EXPECT_NE(receiver().status().text().find("lent its memory"), std::string::npos)
      << receiver().status().text();
}

// --- what lands

/// Two ranks, the second of which wants a message in its arena.
class ShmLanding : public testing::Test, public Pair {
 protected:
  ShmLanding() : Pair({.name = "shm", .make = make_shm_transport}, kLong) {}
  /// Each learns what the other reaches with a message that needs a slot.
  void SetUp() override {
    ASSERT_TRUE(ready);
    Payload word(kShort);
    for (const int from : {0, 1}) {
      ASSERT_TRUE(ends[from]->send(word.data(), kShort, 0));
      ASSERT_TRUE(ends[1 - from]->receive(word.data(), kShort, 0));
    }
  }

  Connection& sender() { return *ends[0]; }
  Connection& receiver() { return *ends[1]; }
  void expect(std::byte* into) {
    receiver().landing()->expect(receiver().landing()->next(), into, kLong);
  }
  /// Where the sender would write the next message, once it knows what was expected.
  std::byte* place() {
    EXPECT_EQ(sender().peek(kLong, 0), nullptr);
    return sender().acquire(kLong);
  }
  Payload wanted_ = Payload(kLong, std::byte{1}, ArenaResource::of_process());
};

TEST_F(ShmLanding, TheSenderWritesToTheReceiversMemory) {
  expect(wanted_.data());
  EXPECT_FALSE(sender().lands());
  std::byte* const there = place();
  EXPECT_TRUE(sender().lands());
  EXPECT_EQ(place(), there);
  *there = std::byte{2};
  EXPECT_EQ(wanted_.front(), std::byte{2});
  EXPECT_FALSE(sender().lending()->lends(wanted_.data(), kLong, Fetch::always)) << "it lands";
  sender().commit(kLong, 1);
  EXPECT_FALSE(sender().lands());
  EXPECT_EQ(receiver().peek(kLong, 1), wanted_.data());
}

TEST_F(ShmLanding, NothingLandsOutsideTheArena) {
  Payload own(kLong), of_segment = registered(0, kLong);
  for (std::byte* into : {own.data(), of_segment.data()}) {
    expect(into);
    ASSERT_NE(place(), nullptr);
    EXPECT_FALSE(sender().lands());
  }
}

/// What was decided of a message stays so, also if its receiver says then where it wants it.
TEST_F(ShmLanding, AHintThatComesBetweenChangesNothing) {
  Payload lent(kLong, std::byte{6}, ArenaResource::of_process());
  ASSERT_TRUE(sender().lending()->lends(lent.data(), kLong, Fetch::never));
  expect(wanted_.data());
  ASSERT_TRUE(sender().lending()->lend(lent.data(), kLong, 1));
  Payload got(kLong);
  ASSERT_TRUE(receiver().receive(got.data(), kLong, 1));
  EXPECT_EQ(got, Payload(kLong, std::byte{6}));

  std::byte* const slot = place();
  expect(wanted_.data());
  EXPECT_EQ(place(), slot);
  EXPECT_FALSE(sender().lands());
  std::fill_n(slot, kLong, std::byte{7});
  sender().commit(kLong, 2);
  ASSERT_TRUE(receiver().receive(got.data(), kLong, 2));
  EXPECT_EQ(got, Payload(kLong, std::byte{7}));
  EXPECT_EQ(wanted_.front(), std::byte{1});

  expect(wanted_.data());
  std::fill_n(place(), kLong, std::byte{8});
  EXPECT_TRUE(sender().lands());
  sender().commit(kLong, 3);
  EXPECT_EQ(receiver().peek(kLong, 3), wanted_.data());
}

/// A receiver that takes a landed message to another place gets it there.
TEST_F(ShmLanding, AMessageMayBeReceivedElsewhere) {
  expect(wanted_.data());
  std::fill_n(place(), kLong, std::byte{3});
  sender().commit(kLong, 1);
  Payload got(kLong);
  ASSERT_TRUE(receiver().receive(got.data(), kLong, 1));
  EXPECT_EQ(got, Payload(kLong, std::byte{3}));
}

/// The memory of a failed call is the program's again once `cancel` has returned.
TEST_F(ShmLanding, AReceiverWhoseCallFailsWaitsForASenderThatWrites) {
  expect(wanted_.data());
  std::byte* const there = place();
  std::atomic<bool> cancels{false}, cancelled{false};
  std::thread receiving([&] {
    cancels = true;
    receiver().landing()->cancel();
    cancelled = true;
    std::ranges::fill(wanted_, std::byte{5});
  });
  EXPECT_TRUE(eventually([&] { return cancels.load(); }));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (!cancelled && std::chrono::steady_clock::now() < end) {
    std::fill_n(there, kLong, std::byte{4});
    std::this_thread::yield();
  }
  EXPECT_FALSE(cancelled);
  sender().lending()->withdraw();  // its own call has failed, too
  receiving.join();
  EXPECT_EQ(wanted_, Payload(kLong, std::byte{5}, ArenaResource::of_process()));
  EXPECT_EQ(receiver().status().code(), Code::aborted);
}

/// And also where it ends with the message half written.
TEST_F(ShmLanding, ASenderThatEndsWritesNoMore) {
  expect(wanted_.data());
  ASSERT_NE(place(), nullptr);
  ASSERT_TRUE(sender().lands());
  ends[0].reset();
  receiver().landing()->cancel();
  EXPECT_EQ(receiver().status().code(), Code::aborted);
}

/// A cell may say that the message lies where it was wanted, and it was wanted nowhere.
TEST_F(ShmLanding, WhatWasNeverWantedIsNoPlace) {
  expect(wanted_.data());
  std::fill_n(place(), kLong, std::byte{3});
  sender().commit(kLong, 1);
  EXPECT_EQ(receiver().peek(kLong - 64, 1), nullptr);
  EXPECT_EQ(receiver().status().code(), Code::mismatch);
}

/// Of the first connection of two processes; others pass on what is there.
TEST(ShmSlots, FirstLongMessagesWaitForNoPages) {
  constexpr std::size_t kPages = 4;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  Pair pair({.name = "shm", .make = make_shm_transport}, 64 * page);
  ASSERT_TRUE(pair.ready);
  const auto memory = MemorySegment::create("coll-test", page);
  const auto segment = MemorySegment::map(*memory, page);
  if (!segment.ok() || !populate(segment->data(), page)) GTEST_SKIP() << "Linux before 5.14";
  if (kPages * page > 64 << 10) GTEST_SKIP() << "pages are long";
  int populated = 0;
  for (auto& end : pair.ends) {
    std::byte* place = end->acquire(kPages * page);
    ASSERT_NE(place, nullptr);
    place -= reinterpret_cast<std::uintptr_t>(place) % page;
    std::array<unsigned char, kPages> there{};
    ASSERT_EQ(mincore(place, kPages * page, there.data()), 0);
    populated += std::ranges::count(there, 1) == kPages ? 1 : 0;
  }
  EXPECT_EQ(populated, 1) << "the other end is a second connection to this process";
}

}  // namespace
}  // namespace coll::test
