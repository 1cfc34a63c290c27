// SPDX-License-Identifier: Apache-2.0
// Unix sockets.
#include "sys/net/unix_socket.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

namespace coll {
namespace {

/// Both ends of a connection, as unix_dial and unix_accept make them.
std::array<Fd, 2> make_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

TEST(UnixSocket, APacketSentBeforeTheEndIsNeverMissed) {
  // The receiver looks just while the sender sends and closes. The window is small: a receiver that
  // believes the first end it sees misses about one in 60,000.
  constexpr int kRounds = 4000;
  std::array<Fd, 2> ends;
  std::atomic<int> round{0};
  std::thread sender([&] {
    const std::byte packet{42};
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load(std::memory_order_acquire) != i) std::this_thread::yield();
      EXPECT_TRUE(unix_send(ends[1], {&packet, 1}).ok());
      ends[1].reset();
      round.store(-i, std::memory_order_release);
    }
  });
  int missed = 0;
  for (int i = 1; i <= kRounds; ++i) {
    ends = make_pair();
    round.store(i, std::memory_order_release);
    std::byte packet{};
    auto got = unix_receive(ends[0], {&packet, 1});
    while (got.ok() && !got->has_value()) got = unix_receive(ends[0], {&packet, 1});
    missed += got.ok() && packet == std::byte{42} ? 0 : 1;
    while (round.load(std::memory_order_acquire) != -i) std::this_thread::yield();
  }
  sender.join();
  EXPECT_EQ(missed, 0) << "of " << kRounds;
}

TEST(UnixSocket, ItsNetworkIsNamed) {
  const std::array<Fd, 2> here = make_pair();
  const auto name = unix_network_of(here[0]);
  ASSERT_TRUE(name.ok()) << name.status().text();
  EXPECT_FALSE(name->empty());
  EXPECT_EQ(*unix_network_of(here[1]), *name);
  bool moved = false;
  std::string other, still;
  std::thread([&] {
    moved = ::unshare(CLONE_NEWNET) == 0;
    if (!moved) return;
    other = *unix_network_of(make_pair()[0]);
    still = *unix_network_of(here[0]);
  }).join();
  if (!moved) GTEST_SKIP() << "this process may not make a network namespace";
  EXPECT_NE(other, *name);
  const bool asks_the_socket = name->find('/') == std::string::npos;  // from Linux 5.14 on
  EXPECT_EQ(still, asks_the_socket ? *name : other) << "it is where it was made";
}

TEST(UnixSocket, TheEndIsALostPeer) {
  auto ends = make_pair();
  std::byte packet{};
  ASSERT_TRUE(unix_receive(ends[0], {&packet, 1}).ok());
  ends[1].reset();
  EXPECT_EQ(unix_receive(ends[0], {&packet, 1}).status().code(), Code::peer_lost);
}

}  // namespace
}  // namespace coll
