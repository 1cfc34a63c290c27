// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: ranks as processes of their own.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace collectives::testing {

inline constexpr unsigned kPatience_s = 60;  // a rank that hangs is killed, which fails the test

/// A directory for the rendezvous' files, gone with this object.
class Meetings {
 public:
  Meetings() {
    std::string name = (std::filesystem::temp_directory_path() / "coll-end-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;
  ~Meetings() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string place(int round) const {
    return "file://" + path_ + "/" + std::to_string(round);
  }

 private:
  std::string path_;
};

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
