// SPDX-License-Identifier: Apache-2.0
// What it costs to wait for many TCP connections, and that none is overlooked.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "transport_backend.hpp"
#include "transports/tcp/tcp_connection.hpp"

namespace {

#ifdef SANITIZED  // it has its own in place of the C library's
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
#endif
std::atomic<int> g_reads{0}, g_pieces{0}, g_looks{0};

}  // namespace

#ifndef SANITIZED
// In place of the C library's: they count.
extern "C" ssize_t recv(int socket, void* data, size_t bytes, int flags) {
  ++g_reads;
  return syscall(SYS_recvfrom, socket, data, bytes, flags, nullptr, nullptr);
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  ++g_pieces;
  return syscall(SYS_recvmsg, socket, message, flags);
}
extern "C" int epoll_wait(int set, epoll_event* events, int most, int timeout) {
  ++g_looks;
  return static_cast<int>(syscall(SYS_epoll_pwait, set, events, most, timeout, nullptr, 8));
}
#endif

namespace coll::test {
namespace {

const Backend kTcp{.name = "tcp", .make = make_tcp_transport};
constexpr std::uint32_t kCredits = 2;
constexpr std::size_t kLong = 40 << 20;  ///< bytes, more than the kernel takes

/// Two ranks with many connections between them.
class Lanes {
 public:
  explicit Lanes(std::uint32_t lanes, std::size_t slot_bytes = 1024) : ranks_(kTcp) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      for (const Rank rank : {0, 1}) {
        ends_[rank].push_back(ranks_.open(
            rank, {.peer = 1 - rank, .lane = lane, .slot_bytes = slot_bytes, .credits = kCredits}));
      }
      ready_ = ready_ && ranks_.settle(here(lane), there(lane)) && here(lane).ready() &&
               there(lane).ready();
    }
  }
  [[nodiscard]] bool ready() const { return ready_; }
  Connection& here(std::size_t lane) { return *ends_[0][lane]; }
  Connection& there(std::size_t lane) { return *ends_[1][lane]; }
  void close_there(std::size_t lane) { ends_[1][lane].reset(); }
  ProgressSource& source() { return *here(0).progress_source(); }

  /// A round of this end that tries to receive on the first `lanes`; true if something came.
  bool round(std::size_t lanes) {
    bool came = false;
    for (std::size_t lane = 0; lane < lanes; ++lane) came |= here(lane).peek(8, lane) != nullptr;
    if (!came) source().progress();
    return came;
  }

 private:
  Ranks ranks_;
  std::vector<std::unique_ptr<Connection>> ends_[2];
  bool ready_ = true;
};

struct Calls {
  int reads, looks;
  int pieces;  ///< reads into several places
};
template <class Do>
Calls calls_of(Do what) {
  const Calls before{g_reads, g_looks, g_pieces};
  what();
  return {g_reads - before.reads, g_looks - before.looks, g_pieces - before.pieces};
}

TEST(TcpProgress, ManyConnectionsCostOneSystemCallARound) {
  constexpr std::size_t kLanes = 100;
  Lanes lanes(kLanes);
  ASSERT_TRUE(lanes.ready());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lanes.round(kLanes));
  const Calls calls = calls_of([&] {
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(lanes.round(kLanes));
  });
  EXPECT_EQ(calls.reads, 0);
  if (kCounts) {
    EXPECT_EQ(calls.looks, 50);
  }
  for (const std::size_t lane : {std::size_t{37}, kLanes - 1, std::size_t{0}}) {
    const std::uint64_t value = lane;
    ASSERT_TRUE(lanes.there(lane).send(reinterpret_cast<const std::byte*>(&value), 8, lane));
    EXPECT_TRUE(eventually([&] { return lanes.round(kLanes); })) << lane;
    EXPECT_NE(lanes.here(lane).peek(8, lane), nullptr) << lane;
    lanes.here(lane).release();
  }
}

TEST(TcpProgress, OneConnectionIsAskedItself) {
  Lanes lanes(1);
  ASSERT_TRUE(lanes.ready());
  const Calls calls = calls_of([&] {
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(lanes.round(1));
  });
  if (kCounts) {
    EXPECT_EQ(calls.reads, 50);
  }
  EXPECT_EQ(calls.looks, 0);
}

/// A message that has come takes one read, a long one straight into its place.
TEST(TcpProgress, AMessageTakesOneRead) {
  Lanes lanes(1, 64 << 10);
  ASSERT_TRUE(lanes.ready());
  const int socket = dynamic_cast<TcpConnection&>(lanes.here(0)).socket();
  std::uint64_t digest = 0;
  for (const std::size_t bytes : {0U, 8U, 4096U, 4097U, 16320U, 16321U, 16384U, 65536U}) {
    const std::vector<std::byte> data(bytes, std::byte{7});
    std::vector<std::byte> got(bytes);
    for (const bool peeks : {false, true}) {
      SCOPED_TRACE(std::to_string(bytes) + (peeks ? " bytes, looked at" : " bytes, received"));
      ++digest;
      ASSERT_TRUE(eventually([&] { return lanes.there(0).send(data.data(), bytes, digest); }));
      ASSERT_TRUE(eventually([&] {
        nudge(lanes.there(0));
        int waits = 0;
        return ioctl(socket, FIONREAD, &waits) == 0 &&
               static_cast<std::size_t>(waits) == TcpSlots::kHeaderBytes + bytes;
      }));
      const Calls calls = calls_of([&] {
        if (!peeks) {
          ASSERT_TRUE(lanes.here(0).receive(got.data(), bytes, digest));
        } else {
          const std::byte* const there = lanes.here(0).peek(bytes, digest);
          ASSERT_NE(there, nullptr);
          got.assign(there, there + bytes);
          lanes.here(0).release();
        }
      });
      EXPECT_EQ(got, data);
      if (kCounts) {
        EXPECT_EQ(calls.reads, bytes <= 4096 ? 1 : 0);
        EXPECT_EQ(calls.pieces, bytes <= 4096 ? 0 : 1);
      }
    }
  }
}

/// Few are tried again as soon as they are few, though many were before.
TEST(TcpProgress, FewAreAskedThemselvesAfterMany) {
  Lanes lanes(50);
  ASSERT_TRUE(lanes.ready());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lanes.round(50));
  EXPECT_FALSE(lanes.round(1));
  const Calls calls = calls_of([&] {
    for (int i = 0; i < 80; ++i) EXPECT_FALSE(lanes.round(1));
  });
  if (kCounts) {
    EXPECT_GE(calls.reads, 80);
  }
  EXPECT_LE(calls.looks, 80 / 8 + 1);
}

/// A peer may send while this rank waits for another one: until all credits of the connection are
/// spent, again and again.
TEST(TcpProgress, ConnectionsThatNobodyTriesMakeRoom) {
  Lanes lanes(8, kLong);
  ASSERT_TRUE(lanes.ready());
  const std::vector<std::byte> data(kLong, std::byte{7});
  std::vector<std::byte> got(kLong);
  for (std::uint64_t message = 0; message < 4; ++message) {
    ASSERT_TRUE(eventually([&] {
      EXPECT_FALSE(lanes.round(1));
      nudge(lanes.there(5));
      return lanes.there(5).send(data.data(), kLong, message);
    })) << message;
    if (message == 0) continue;  // from now on one message behind
    ASSERT_TRUE(eventually([&] {
      nudge(lanes.there(5));
      return lanes.here(5).receive(got.data(), kLong, message - 1);
    })) << message;
    EXPECT_EQ(got, data);
  }
}

/// News that came while no slot was free must not be lost.
TEST(TcpProgress, AFreedSlotIsFilled) {
  constexpr std::size_t kBytes = 64 << 10;
  Lanes lanes(8, kBytes);
  ASSERT_TRUE(lanes.ready());
  const int socket = dynamic_cast<TcpConnection&>(lanes.here(5)).socket();
  const auto left_in_kernel = [&] {
    int bytes = 0;
    EXPECT_EQ(ioctl(socket, FIONREAD, &bytes), 0);
    return static_cast<std::size_t>(bytes);
  };
  const std::vector<std::byte> data(kBytes, std::byte{7});
  for (std::uint64_t message = 0; message <= kCredits; ++message) {
    ASSERT_TRUE(eventually([&] {
      EXPECT_FALSE(lanes.round(1));
      nudge(lanes.there(5));
      return lanes.there(5).send(data.data(), kBytes, message);
    }));
  }
  const auto round_until_left = [&](std::size_t most) {
    return eventually([&] {
      EXPECT_FALSE(lanes.round(1));
      return left_in_kernel() <= most;
    });
  };
  // Its header may have been read ahead, or not.
  ASSERT_TRUE(round_until_left(kBytes + 100)) << "there are slots for all but the last";
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(lanes.round(1));
  ASSERT_GT(left_in_kernel(), 0U);
  ASSERT_NE(lanes.here(5).peek(kBytes, 0), nullptr);
  lanes.here(5).release();
  EXPECT_TRUE(round_until_left(0));
}

TEST(TcpProgress, ANapEndsWithNewsOnly) {
  Lanes lanes(20);
  ASSERT_TRUE(lanes.ready());
  const auto readable = [&](int timeout_ms) {
    pollfd one{lanes.source().wait_fd(), POLLIN, 0};
    return ::poll(&one, 1, timeout_ms) == 1;
  };
  ASSERT_TRUE(eventually([&] { return !lanes.source().has_news(); }));
  EXPECT_FALSE(readable(0));
  const std::uint64_t value = 3;
  ASSERT_TRUE(lanes.there(3).send(reinterpret_cast<const std::byte*>(&value), 8, 3));
  EXPECT_TRUE(readable(10'000));
  EXPECT_TRUE(lanes.source().has_news());
  EXPECT_FALSE(lanes.source().has_news()) << "it was taken";
  EXPECT_FALSE(readable(0)) << "a message that nobody asks for is no news for ever";
  EXPECT_NE(lanes.here(3).peek(8, 3), nullptr);
}

/// A round in vain takes news too; who tried before must not nap beside them.
TEST(TcpProgress, NewsThatARoundHasTakenEndTheNap) {
  Lanes lanes(20);
  ASSERT_TRUE(lanes.ready());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lanes.round(20));
  ASSERT_TRUE(eventually([&] { return !lanes.source().has_news(); }));
  const std::uint64_t value = 3;
  ASSERT_TRUE(lanes.there(3).send(reinterpret_cast<const std::byte*>(&value), 8, 3));
  pollfd one{lanes.source().wait_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&one, 1, 10'000), 1);
  EXPECT_FALSE(lanes.round(20)) << "it was tried before the news were taken";
  EXPECT_TRUE(lanes.source().has_news());
  EXPECT_FALSE(lanes.source().has_news());
  EXPECT_TRUE(lanes.round(20));
  lanes.here(3).release();
}

TEST(TcpProgress, AClosedEndIsNoticedAmongMany) {
  Lanes lanes(20);
  ASSERT_TRUE(lanes.ready());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lanes.round(20));
  const std::uint64_t value = 7;
  ASSERT_TRUE(lanes.there(7).send(reinterpret_cast<const std::byte*>(&value), 8, 7));
  lanes.close_there(7);
  ASSERT_TRUE(eventually([&] { return lanes.round(20); }));
  lanes.here(7).release();
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(lanes.round(20));
    return !lanes.here(7).status().ok();
  }));
  EXPECT_EQ(lanes.here(7).status().code(), Code::peer_lost);
  EXPECT_TRUE(lanes.here(6).status().ok());
}

}  // namespace
}  // namespace coll::test
