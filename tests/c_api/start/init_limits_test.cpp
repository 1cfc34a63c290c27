// SPDX-License-Identifier: Apache-2.0
// Ranks whose process may open too few files, or write none, when they join.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "communicator/rank_processes.hpp"

// To look for leaks takes files.
// NOLINTNEXTLINE: the sanitizer's name, which it must see
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "detect_leaks=0";
}

namespace {

using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::wrong;

/// Lowers a limit of this process for good.
void limit(__rlimit_resource what, rlim_t to) {
  const rlimit lowered{to, to};
  if (setrlimit(what, &lowered) != 0) std::abort();
}

/// Lets this process open only `more` further files.
void limit_files(int more) {
  int highest = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    highest = std::max(highest, std::stoi(file.path().filename()));
  }
  // The limit is one of numbers: none may be free below it.
  int next = dup(STDERR_FILENO);
  while (next <= highest) next = dup(STDERR_FILENO);
  close(next);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(next + more));
}

/// A port of this host that nobody listens on now.
int free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  close(fd);
  return ntohs(address.sin_port);
}

struct Asked {
  std::string place, transports;
  int rank = 0;
  double connect_s = 20;
};

/// Joins as one of two ranks, and leaves again.
coll_status_t join_and_leave(const Asked& asked) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = asked.place.c_str();
  config.transports = asked.transports.c_str();
  config.connect_s = asked.connect_s;
  coll_comm_t comm = nullptr;
  coll_status_t status = coll_comm_init(&comm, 2, asked.rank, &config);
  if (status != COLL_SUCCESS) return status;
  // A rank that could not begin to watch failed alone, and has told the others.
  status = coll_barrier(comm, nullptr);
  coll_comm_destroy(comm);
  return status;
}

TEST(InitLimits, FilesOfNoLengthAreNamedOnAllRanks) {
  for (const int limited : {0, 1}) {
    const std::string place = "tcp://127.0.0.1:" + std::to_string(free_port());
    RankProcesses ranks(2, [&](int rank) {
      signal(SIGXFSZ, SIG_IGN);  // where the output of tests goes into a file
      if (rank == limited) limit(RLIMIT_FSIZE, 0);
      const coll_status_t status = join_and_leave({place, "shm", rank});
      return wrong(rank, "init", status, COLL_OUT_OF_RESOURCES, "ulimit -f") ||
             wrong(rank, "init", status, COLL_OUT_OF_RESOURCES,
                   ("not viable on rank " + std::to_string(limited)).c_str());
    });
    ranks.expect_all_good();
  }
}

/// However few files a rank may open, it joins or both are told what it lacks; and once it has what
/// it needs, they meet at their next try, wherever the first one ended.
TEST(InitLimits, TooFewFilesAreNamedOnAllRanksWhichThenMeet) {
  const Meetings meetings;
  int round = 0;
  for (const char* transports : {"shm", "tcp", "shm,tcp"}) {
    for (const int limited : {0, 1}) {
      // One file is for what is looked up and closed again, one for the socket to the other rank;
      // a hub listens, too. With fewer they do not meet, so the others cannot be told.
      for (int few = limited == 1 ? 2 : 4; few < 12; ++few) {
        const std::string place = meetings.place(++round);
        RankProcesses ranks(2, [&](int rank) {
          std::vector<int> held(64);
          for (int& one : held) one = dup(STDERR_FILENO);
          if (rank == limited) limit_files(few);
          const coll_status_t first = join_and_leave({place, transports, rank});
          if (first != COLL_SUCCESS &&
              wrong(rank, "init", first, COLL_OUT_OF_RESOURCES, "open files")) {
            return 1;
          }
          for (const int one : held) close(one);
          const coll_status_t second = join_and_leave({place, transports, rank});
          return wrong(rank, "init again", second, COLL_SUCCESS) ? 1 : 0;
        });
        for (const int rank : {0, 1}) {
          EXPECT_EQ(ranks.wait_for(rank), 0)
              << transports << ": rank " << rank << ", rank " << limited << " may open " << few;
        }
      }
    }
  }
}

/// Who cannot even dial says so itself.
TEST(InitLimits, NoFileToDialWithIsNamed) {
  RankProcesses ranks(1, [&](int) {
    limit_files(0);
    const coll_status_t status = join_and_leave({"tcp://127.0.0.1:9", "tcp", 1, 0.3});
    return wrong(1, "init", status, COLL_OUT_OF_RESOURCES, "ulimit -n") ? 1 : 0;
  });
  ranks.expect_all_good();
}

}  // namespace
