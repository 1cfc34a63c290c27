// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over sockets of the program.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <collectives/collectives.hpp>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"

namespace collectives::testing {
namespace {

/// A pair of connected sockets; the ends that are left are closed with it.
class Pair {
 public:
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    close_end(0);
    close_end(1);
  }
  [[nodiscard]] int end(std::size_t which) const { return ends_[which]; }
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// The star of `size` ranks: pair r leads from rank 0 to rank r.
struct Star {
  explicit Star(int size) : pairs(static_cast<std::size_t>(size)) {}
  [[nodiscard]] std::vector<int> of(int rank) const {
    if (rank != 0) return {pairs[static_cast<std::size_t>(rank)].end(1)};
    std::vector<int> all;
    for (const Pair& pair : pairs) all.push_back(pair.end(0));
    return all;
  }
  std::vector<Pair> pairs;
};

/// Runs `body` for each rank in a thread of its own.
template <class Body>
void in_threads(int size, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([=] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

void join_and_sum(const std::vector<int>& fds, int size, int rank, const coll_config_t& config) {
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(coll_comm_init_fds(&comm, size, rank, fds.data(), &config)));
  Values sum(1000, rank + 1);
  EXPECT_TRUE(ok(all_reduce(sum, sum, comm)));
  EXPECT_EQ(sum, Values(1000, size * (size + 1) / 2));
  coll_comm_t copy = nullptr;
  EXPECT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &copy))) << "it needs no further sockets";
  EXPECT_TRUE(ok(coll_barrier(copy, nullptr)));
  EXPECT_TRUE(ok(coll_comm_destroy(copy)));
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
}

void expect_refused(const std::vector<int>& fds, int size, int rank, const coll_config_t& config,
                    coll_status_t status, const char* why) {
  coll_comm_t comm = nullptr;
  EXPECT_FALSE(
      wrong(rank, "join", coll_comm_init_fds(&comm, size, rank, fds.data(), &config), status, why));
}

TEST(GivenSockets, MakeACommunicator) {
  for (const char* transports : {"shm,tcp", "tcp"}) {
    for (const int size : {1, 2, 5}) {
      const Star star(size);
      coll_config_t config = config_with();
      config.transports = transports;
      in_threads(size, [&](int rank) { join_and_sum(star.of(rank), size, rank, config); });
    }
  }
}

/// The library shuts down what the caller still has, so that nobody waits for its end.
TEST(GivenSockets, AreShutDownAtTheEnd) {
  const Star star(2);
  in_threads(2, [&](int rank) {
    const std::vector<int> fds = star.of(rank);
    join_and_sum(fds, 2, rank, config_with());
    std::array<char, 64> last{};  // what the library has not read any more
    ssize_t got = 0;
    while ((got = ::recv(fds.back(), last.data(), last.size(), 0)) > 0) {
    }
    EXPECT_EQ(got, 0) << "the end, and not that nothing has come yet";
  });
}

TEST(GivenSockets, AlsoWithoutBlocking) {
  const Star star(3);
  std::vector<coll_joining_t> joinings(3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<int> fds = star.of(rank);
    coll_config_t config = config_with();
    config.joining = &joinings[static_cast<std::size_t>(rank)];
    coll_comm_t none = nullptr;
    ASSERT_TRUE(ok(coll_comm_init_fds(&none, 3, rank, fds.data(), &config)));
  }
  for (coll_joining_t joining : joinings) {
    coll_comm_t comm = nullptr;
    EXPECT_TRUE(ok(coll_joining_wait(joining, -1, &comm)));
    EXPECT_TRUE(ok(coll_joining_free(joining)));
    EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  }
}

/// The caller may close its own at once.
TEST(GivenSockets, AreDuplicated) {
  Star star(2);
  in_threads(2, [&](int rank) {
    const std::vector<int> fds = star.of(rank);
    auto joined = collectives::Communicator::join_over(fds, 2, rank);
    ASSERT_TRUE(joined.ok()) << joined.error().text;
    star.pairs[1].close_end(static_cast<std::size_t>(rank));
    std::int64_t one = 1;
    EXPECT_TRUE(joined->all_reduce<std::int64_t>(std::span(&one, 1)).ok());
    EXPECT_EQ(one, 2);
  });
}

TEST(GivenSockets, OfTcpBetweenProcesses) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const pid_t child = fork();
  const auto run_rank = [](int fd, int rank) {
    const int fds[] = {rank == 0 ? -1 : fd, fd};
    coll_comm_t comm = nullptr;
    if (coll_comm_init_fds(&comm, 2, rank, fds, nullptr) != COLL_SUCCESS) return false;
    close(fd);
    const bool summed = coll_barrier(comm, nullptr) == COLL_SUCCESS;
    return coll_comm_destroy(comm) == COLL_SUCCESS && summed;
  };
  if (child == 0) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(2);
    _exit(run_rank(fd, 1) ? 0 : 1);
  }
  EXPECT_TRUE(run_rank(accept(listener, nullptr, nullptr), 0)) << coll_last_error();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(listener);
}

TEST(GivenSockets, ThatLeadAstrayAreNamed) {
  const Star star(3);
  in_threads(3, [&](int rank) {  // ranks 1 and 2 have each other's
    expect_refused(star.of(rank == 0 ? 0 : 3 - rank), 3, rank, config_with(), COLL_MISMATCH,
                   "leads to rank ");
  });
  const Star other(2);
  in_threads(2, [&](int rank) {
    expect_refused(other.of(rank), rank == 0 ? 2 : 3, rank, config_with(), COLL_INVALID_USAGE,
                   "as one of 3 ranks");
  });
}

TEST(GivenSockets, ThatAreClosedOrSilentAreNamed) {
  Star star(3);
  star.pairs[2].close_end(1);
  in_threads(2, [&](int rank) {
    expect_refused(star.of(rank), 3, rank, config_with(), COLL_PEER_LOST,
                   "given to rank 2 is closed");
  });
  const Star silent(3);
  in_threads(2, [&](int rank) {
    expect_refused(silent.of(rank), 3, rank, config_with(30, 0.2 + 0.1 * rank), COLL_DEADLINE,
                   "rank 2 did not answer in time");
  });
  const Star late(3);
  in_threads(2, [&](int rank) {  // the rank's deadline is first: rank 0 knows who is missing
    expect_refused(late.of(rank), 3, rank, config_with(30, rank == 0 ? 20 : 0.2), COLL_DEADLINE,
                   "rank 2 did not answer in time");
  });
  const Star strange(2);
  ASSERT_EQ(::send(strange.of(1)[0], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  const std::vector<int> fds = strange.of(0);
  coll_comm_t comm = nullptr;
  const coll_config_t config = config_with();
  EXPECT_FALSE(wrong(0, "strange", coll_comm_init_fds(&comm, 2, 0, fds.data(), &config),
                     COLL_MISMATCH, "brings something that no rank says"));
}

TEST(GivenSockets, ThatAreNoneAreRefused) {
  coll_comm_t comm = nullptr;
  const auto refused = [&](int fd, const char* why) {
    const int fds[] = {-1, fd};
    EXPECT_FALSE(
        wrong(0, "fd", coll_comm_init_fds(&comm, 2, 0, fds, nullptr), COLL_INVALID_ARGUMENT, why));
  };
  refused(-1, "is not open");
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  refused(ends[0], "is no socket");
  close(ends[0]);
  close(ends[1]);
  const int idle = socket(AF_INET, SOCK_STREAM, 0);
  refused(idle, "is no connected stream socket");
  close(idle);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.data()), 0);
  refused(ends[0], "is no connected stream socket");
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(coll_comm_init_fds(&comm, 2, 0, nullptr, nullptr), COLL_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace collectives::testing
