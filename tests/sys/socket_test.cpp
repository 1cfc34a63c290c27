// SPDX-License-Identifier: Apache-2.0
// Sockets and frames.
#include "sys/net/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "sys/net/socket_frame.hpp"
#include "sys/net/unix_socket.hpp"

namespace coll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline soon() {
  return Clock::now() + seconds(20);
}
NetAddress loopback(int family, std::uint16_t port = 0) {
  return *NetAddress::parse((family == AF_INET ? "127.0.0.1:" : "[::1]:") + std::to_string(port));
}
bool has_ipv6() {
  return listen_at(loopback(AF_INET6)).ok();
}

/// The two ends of a connection over loopback.
struct Ends {
  Ends() {
    Result<Fd> listener = listen_everywhere();
    EXPECT_TRUE(listener.ok()) << listener.status().text();
    Result<Fd> dialled = dial(loopback(AF_INET, local_address(listener->get()).port()), soon());
    EXPECT_TRUE(dialled.ok()) << dialled.status().text();
    EXPECT_TRUE(*wait_for(listener->get(), POLLIN, soon()));
    Result<Fd> accepted = accept_next(listener->get());
    EXPECT_TRUE(accepted.ok() && *accepted);
    a = *std::move(dialled);
    b = *std::move(accepted);
  }
  Fd a;
  Fd b;
};

TEST(Socket, OneListenerServesBothFamilies) {
  Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  const std::uint16_t port = local_address(listener->get()).port();
  EXPECT_NE(port, 0);
  EXPECT_FALSE(*accept_next(listener->get()));
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !has_ipv6()) continue;
    const Result<Fd> dialled = dial(loopback(family, port), soon());
    ASSERT_TRUE(dialled.ok()) << dialled.status().text();
    ASSERT_TRUE(*wait_for(listener->get(), POLLIN, soon()));
    const Result<Fd> accepted = accept_next(listener->get());
    ASSERT_TRUE(accepted.ok() && *accepted);
    EXPECT_EQ(remote_address(accepted->get()), local_address(dialled->get()));
    EXPECT_EQ(remote_address(dialled->get()), loopback(family, port));
  }
}

TEST(Socket, APortThatIsTakenIsNamed) {
  const Result<Fd> first = listen_everywhere();
  const std::uint16_t port = local_address(first->get()).port();
  const Result<Fd> second = listen_everywhere(port);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().failure()->error, EADDRINUSE);
  EXPECT_NE(second.status().text().find(std::to_string(port)), std::string::npos);
}

TEST(Socket, NobodyThereIsConnectionRefused) {
  const std::uint16_t port = local_address(listen_everywhere()->get()).port();
  const Result<Fd> dialled = dial(loopback(AF_INET, port), soon());
  ASSERT_FALSE(dialled.ok());
  EXPECT_EQ(dialled.status().failure()->error, ECONNREFUSED);
  EXPECT_NE(dialled.status().text().find("127.0.0.1"), std::string::npos);
}

/// As many descriptors as there are, and no more, for as long as it lives.
struct NoDescriptorLeft {
  NoDescriptorLeft() {
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit few = before;
    const Fd lowest(::dup(0));
    few.rlim_cur = static_cast<rlim_t>(lowest.get());
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

TEST(Socket, NoDescriptorLeftIsAFailureOnlyIfSomebodyWaits) {
  const Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok());
  {
    const auto unix_listener = unix_listen("coll-test-" + std::to_string(getpid()));
    ASSERT_TRUE(unix_listener.ok());
    const NoDescriptorLeft none;
    const Result<Fd> nobody = accept_next(listener->get());
    ASSERT_TRUE(nobody.ok()) << nobody.status().text();
    EXPECT_FALSE(*nobody);
    const auto no_neighbour = unix_accept(*unix_listener);
    ASSERT_TRUE(no_neighbour.ok()) << no_neighbour.status().text();
    EXPECT_FALSE(no_neighbour->has_value());
  }
  const Result<Fd> dialled = dial(loopback(AF_INET, local_address(listener->get()).port()), soon());
  ASSERT_TRUE(dialled.ok() && *wait_for(listener->get(), POLLIN, soon()));
  const NoDescriptorLeft none;
  const Result<Fd> somebody = accept_next(listener->get());
  EXPECT_EQ(somebody.status().code(), Code::out_of_resources) << somebody.status().text();
}

TEST(Socket, ASignalConnectsNobody) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &ignore, &before), 0);
  // A full queue: who dials now gets no answer.
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const NetAddress::Raw here = loopback(AF_INET).raw();
  ASSERT_EQ(::bind(listener.get(), here.get(), here.size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<Fd> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(*begin_dial(local_address(listener.get())));

  const pthread_t me = pthread_self();
  std::atomic<bool> done{false};
  std::thread signals([&] {
    while (!done) pthread_kill(me, SIGUSR1);
  });
  int connected = 0;
  for (int i = 0; i < 100'000; ++i) {
    const Result<bool> yes = check_dial(waiting.back().get());
    connected += yes.ok() && *yes ? 1 : 0;
  }
  done = true;
  signals.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(connected, 0);
}

TEST(Socket, MovingSaysWhatHappened) {
  Ends ends;
  std::vector<std::byte> data(1 << 20, std::byte{5});
  Moved moved = recv_some(ends.b.get(), data);
  EXPECT_TRUE(moved.would_block() && moved.bytes == 0 && !moved.closed);

  // Until the kernel takes no more, then all of it comes out.
  std::size_t sent = 0;
  for (;;) {
    moved = send_some(ends.a.get(), data);
    if (moved.bytes == 0) break;
    sent += moved.bytes;
  }
  EXPECT_TRUE(moved.would_block());
  ends.a.reset();
  std::size_t got = 0;
  for (;;) {
    ASSERT_TRUE(*wait_for(ends.b.get(), POLLIN, soon()));
    moved = recv_some(ends.b.get(), data);
    if (moved.closed) break;
    ASSERT_GT(moved.bytes, 0U);
    got += moved.bytes;
  }
  EXPECT_EQ(got, sent);

  // A dead socket is an error, not a signal.
  for (;;) {
    moved = send_some(ends.b.get(), data);
    if (moved.bytes == 0 && !moved.would_block()) break;
  }
  EXPECT_TRUE(moved.error == EPIPE || moved.error == ECONNRESET) << moved.error;
}

TEST(Socket, WaitingEndsAtTheDeadline) {
  Ends ends;
  EXPECT_FALSE(*wait_for(ends.a.get(), POLLIN, Clock::now() + milliseconds(20)));
  EXPECT_FALSE(*wait_for(ends.a.get(), POLLIN, Clock::now() - seconds(1)));
  EXPECT_TRUE(*wait_for(ends.a.get(), POLLOUT, Clock::now() - seconds(1)));
}

TEST(Frame, ArrivesWholeOverAnyStream) {
  Ends tcp;
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);  // a blocking one
  const Fd left(both[0]);
  const Fd right(both[1]);
  const std::vector<std::string> texts = {"", "x", std::string("a\0b", 3),
                                          std::string(5 << 20, 'y'), "end"};
  for (const auto& [a, b] : {std::pair(tcp.a.get(), tcp.b.get()), {left.get(), right.get()}}) {
    std::thread sender([&, a = a] {
      for (const std::string& text : texts) EXPECT_TRUE(send_frame(a, text, soon()).ok());
    });
    for (const std::string& text : texts) {
      const Result<std::string> got = recv_frame(b, 6 << 20, soon());
      EXPECT_TRUE(got.ok()) << got.status().text();
      EXPECT_TRUE(got.ok() && *got == text) << text.size();
    }
    sender.join();
  }
}

TEST(Frame, FailsWithTheReason) {
  {
    Ends ends;
    const auto nothing = recv_frame(ends.a.get(), 100, Clock::now() + milliseconds(20));
    EXPECT_EQ(nothing.status().code(), Code::deadline);
    EXPECT_NE(nothing.status().text().find("127.0.0.1"), std::string::npos);
  }
  {
    Ends ends;  // nobody reads
    const std::string big(64 << 20, 'z');
    EXPECT_EQ(send_frame(ends.a.get(), big, Clock::now() + milliseconds(20)).code(),
              Code::deadline);
  }
  {
    Ends ends;
    ASSERT_TRUE(send_frame(ends.a.get(), std::string(101, 'a'), soon()).ok());
    EXPECT_EQ(recv_frame(ends.b.get(), 100, soon()).status().code(), Code::mismatch);
  }
  {
    Ends ends;  // the end comes in the middle of a frame
    const char half[] = {100, 0, 0, 0, 'a'};
    ASSERT_EQ(::send(ends.a.get(), half, sizeof half, 0), static_cast<ssize_t>(sizeof half));
    ends.a.reset();
    EXPECT_EQ(recv_frame(ends.b.get(), 100, soon()).status().code(), Code::peer_lost);
  }
}

TEST(Socket, AForkedChildHasNoneOfItsParents) {
  Result<Fd> listener = listen_at(loopback(AF_INET));
  ASSERT_TRUE(listener.ok()) << listener.status().text();
  Ends ends;
  const int status = testing::in_child([&] {
    for (const int fd : {listener->get(), ends.a.get(), ends.b.get()}) {
      if (fcntl(fd, F_GETFD) != -1) return 1;
    }
    // Their numbers are given anew, the parent's objects do not own them.
    std::vector<Fd> own;
    for (int i = 0; i < 64; ++i) own.push_back(*listen_at(loopback(AF_INET)));
    listener->reset();
    ends.a.reset();
    for (const Fd& one : own) {
      if (fcntl(one.get(), F_GETFD) == -1) return 2;
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(send_some(ends.a.get(), std::as_bytes(std::span("x"))).bytes > 0);
  ends.a.reset();
  ASSERT_TRUE(*wait_for(ends.b.get(), POLLIN, soon()));
}

}  // namespace
}  // namespace coll
