// SPDX-License-Identifier: Apache-2.0
// Ranks as processes of their own.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <collectives/collectives.hpp>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.hpp"

namespace collectives::testing {

inline constexpr unsigned kPatience_s = 60;  // a rank that hangs is killed, which fails the test

/// A directory for the rendezvous' files, gone with this object.
class Meetings {
 public:
  [[nodiscard]] std::string place(int round) const {
    return "file://" + folder_.path() + "/" + std::to_string(round);
  }

 private:
  coll::test::TemporaryFolder folder_;
};

/// One process lets another one go on.
class Signal {
 public:
  Signal() {
    if (pipe(ends_.data()) != 0) std::abort();
  }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give() const {
    if (write(ends_[1], "x", 1) != 1) std::abort();
  }
  void wait() const {
    char byte = 0;
    if (read(ends_[0], &byte, 1) != 1) std::abort();
  }

 private:
  std::array<int, 2> ends_{};
};

/// Seconds that this process has spent on cores.
inline double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Joins at `place`; null, and the reason printed, where that fails.
inline coll_comm_t join(const std::string& place, const std::string& transports, int size, int rank,
                        double deadline_s = 20) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = place.c_str();
  config.transports = transports.c_str();
  config.deadline_s = deadline_s;
  config.connect_s = deadline_s;
  coll_comm_t comm = nullptr;
  if (coll_comm_init(&comm, size, rank, &config) != COLL_SUCCESS) {
    std::cerr << "rank " << rank << ": " << coll_last_error() << "\n";
  }
  return comm;
}

/// Prints what went otherwise; the number of such things is an exit code.
inline bool wrong(int rank, const char* doing, coll_status_t status, coll_status_t expected,
                  const char* word = "") {
  if (status == expected && std::strstr(coll_last_error(), word) != nullptr) return false;
  std::cerr << "rank " << rank << ", " << doing << ": " << coll_status_name(status)
            << " instead of " << coll_status_name(expected) << " " << word << ": "
            << coll_last_error() << "\n";
  return true;
}

/// Processes that each run `body` as one rank and then end as a program does: by exit, with the
/// static objects' destructors and all. `body` returns the exit code.
class RankProcesses {
 public:
  RankProcesses(int size, const std::function<int(int rank)>& body) {
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        alarm(kPatience_s);
        std::exit(body(rank));  // NOLINT(concurrency-mt-unsafe): there is one thread
      }
      pids_.push_back(pid);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) wait_for(static_cast<int>(rank));
  }
  /// Of a rank that was not waited for.
  [[nodiscard]] pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  /// The status of waitpid; 0 for a rank that was waited for before.
  int wait_for(int rank) {
    int status = 0;
    const pid_t pid = std::exchange(pids_[static_cast<std::size_t>(rank)], 0);
    if (pid > 0) waitpid(pid, &status, 0);
    return status;
  }
  void expect_all_good() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      EXPECT_EQ(wait_for(static_cast<int>(rank)), 0) << "rank " << rank;
    }
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace collectives::testing
