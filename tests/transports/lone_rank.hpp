// SPDX-License-Identifier: Apache-2.0
// Ranks in threads or processes of their own, for tests of transports.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "sys/fd.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {

/// How two ranks that share nothing else tell each other their descriptors.
class Table {
 public:
  Table() {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
    for (const int rank : {0, 1}) sockets_[rank] = Fd(both[rank]);
  }
  std::string swap(Rank rank, const std::string& mine) {
    char text[4096];
    if (::send(socket(rank), mine.data(), mine.size(), MSG_NOSIGNAL) < 0) return {};
    const ssize_t bytes = ::recv(socket(rank), text, sizeof text, 0);
    return bytes < 0 ? std::string() : std::string(text, static_cast<std::size_t>(bytes));
  }
  /// Waits for the other rank (false: it died).
  bool meet(Rank rank) { return swap(rank, "here") == "here"; }
  void leave(Rank rank) { sockets_[rank].reset(); }

 private:
  int socket(Rank rank) { return sockets_[rank].get(); }
  Fd sockets_[2];
};

/// One rank of two in a thread or process of its own.
struct LoneRank {
  LoneRank(const Backend& backend, Rank rank, std::uint64_t job, Table& table,
           ConnectionSpec spec) {
    auto made = backend.make(spec_of(rank, 2, job));
    if (!made.ok()) return;
    transport = *std::move(made);
    spec.peer = 1 - rank;
    auto opened = transport->open(spec, table.swap(rank, transport->descriptor()));
    if (!opened.ok()) return;
    end = *std::move(opened);
    ready = eventually([&] {
      transport->poll();
      return end->ready() || !end->status().ok();
    });
    ready = ready && end->ready();
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Connection> end;
  bool ready = false;
};

/// Runs `body` in a child; its exit status is 0 if it returned true.
template <class Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() && !testing::Test::HasFailure() ? 0 : 1);
  return child;
}
inline int status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace coll::test
