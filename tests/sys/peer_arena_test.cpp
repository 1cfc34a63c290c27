// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: memory that processes share, as another one sees it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>

#include "child_process.hpp"
#include "sys/memory_segment.hpp"
#include "sys/shared_arena.hpp"
#include "sys/unix_socket.hpp"

namespace coll {
namespace {

constexpr std::size_t kWindow = PeerArena::kWindow;

/// The two ends of a line between parent and child.
std::array<Fd, 2> make_line() {
  std::array<int, 2> ends{};
  COLL_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, "line");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Where the child's block lies.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< of its arena
};

void tell(const Fd& line, const Place& place, int passed = -1) {
  const auto sent = unix_send(line, std::as_bytes(std::span(&place, 1)), {passed});
  COLL_CHECK(sent.ok() && *sent, "tell");
}

UnixPacket hear(const Fd& line, Place* place) {
  pollfd one{line.get(), POLLIN, 0};
  COLL_CHECK(::poll(&one, 1, 30'000) == 1, "nothing comes");
  auto packet = unix_receive(line, std::as_writable_bytes(std::span(place, 1)));
  COLL_CHECK(packet.ok() && packet->has_value(), "nothing came");
  return **std::move(packet);
}

void expect_text(PeerArena& peer, std::uint64_t offset, const std::string& text) {
  const Result<const std::byte*> place = peer.at(offset, text.size());
  ASSERT_TRUE(place.ok()) << place.status().text();
  EXPECT_EQ(std::memcmp(*place, text.data(), text.size()), 0) << text;
}

bool refused(PeerArena& peer, std::uint64_t offset, std::size_t bytes) {
  const Result<const std::byte*> place = peer.at(offset, bytes);
  return !place.ok() && place.status().code() == Code::invalid_argument &&
         place.status().text().find(std::to_string(offset)) != std::string::npos;
}

void expect_no_memory(PeerArena peer) {
  const Result<const std::byte*> place = peer.at(0, 1);
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), Code::invalid_argument);
  EXPECT_NE(place.status().text().find("not sealed against shrinking"), std::string::npos)
      << place.status().text();
}

TEST(PeerArena, ReadsWhatAnotherProcessWritesAlsoLaterAndInSeveralWindows) {
  const auto line = make_line();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto own = SharedArena::of_this_process();
    const auto first = (*own)->allocate(4096);
    (void)(*own)->allocate(kWindow);
    const auto second = (*own)->allocate(4096);
    if (!second.ok()) ::_exit(1);
    std::memcpy(*first + 100, "early", 5);
    std::memcpy(*second, "beyond", 6);
    tell(line[1], {*SharedArena::offset_of(*first + 100, 5), (*own)->size()},
         (*own)->descriptor().get());
    tell(line[1], {*SharedArena::offset_of(*second, 6), 0});
    Place ignored;
    (void)hear(line[1], &ignored);
    std::memcpy(*first + 100, "after", 5);
    tell(line[1], {});
    (void)hear(line[1], &ignored);
    ::_exit((*first)[100] == std::byte{'a'} ? 0 : 2);
  }
  Place first, second, ignored;
  PeerArena peer(std::move(hear(line[0], &first).passed[0]));
  (void)hear(line[0], &second);
  ASSERT_GE(first.size, 2 * kWindow) << "this test needs two windows";
  expect_text(peer, first.offset, "early");
  expect_text(peer, second.offset, "beyond");
  tell(line[0], {});
  (void)hear(line[0], &ignored);
  expect_text(peer, first.offset, "after");
  EXPECT_TRUE(peer.at(first.size - 1, 1).ok());
  EXPECT_TRUE(refused(peer, first.size - 1, 2));
  EXPECT_TRUE(refused(peer, first.size, 1));
  EXPECT_TRUE(refused(peer, ~std::uint64_t{0}, 1));
  EXPECT_TRUE(refused(peer, ~std::uint64_t{0}, 2));
  EXPECT_TRUE(refused(peer, kWindow - 1, 2)) << "of two windows";
  EXPECT_TRUE(refused(peer, 0, kWindow + 1));
  EXPECT_TRUE(peer.at(0, kWindow).ok());
  PeerArena moved = std::move(peer);
  expect_text(moved, second.offset, "beyond");
  tell(line[0], {});
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_text(moved, second.offset, "beyond");  // what is mapped outlives its maker
}

TEST(PeerArena, WhatItMapsIsNotForWriting) {
  auto memory = MemorySegment::create("coll-test", kWindow);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  PeerArena peer(*std::move(memory));
  const Result<const std::byte*> place = peer.at(0, 1);
  ASSERT_TRUE(place.ok()) << place.status().text();
  const auto line = make_line();  // the kernel says EFAULT where we would die
  ASSERT_EQ(::write(line[0].get(), "x", 1), 1);
  EXPECT_EQ(::read(line[1].get(), const_cast<std::byte*>(*place), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

// One that ends before its window does would let us die of SIGBUS.
TEST(PeerArena, AShortArenaIsRefused) {
  auto memory = MemorySegment::create("coll-test", 1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  PeerArena peer(*std::move(memory));
  EXPECT_TRUE(refused(peer, 0, 4096));
  EXPECT_TRUE(refused(peer, 2 << 20, 4096));
}

TEST(PeerArena, OneThatMayShrinkIsRefused) {
  Fd memory(::memfd_create("coll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), static_cast<off_t>(kWindow)), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  expect_no_memory(PeerArena(std::move(memory)));
}

TEST(PeerArena, WhatIsNoMemoryIsRefused) {
  auto line = make_line();
  expect_no_memory(PeerArena(std::move(line[0])));
  expect_no_memory(PeerArena());
}

}  // namespace
}  // namespace coll
