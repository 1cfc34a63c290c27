// SPDX-License-Identifier: Apache-2.0
// Processes started as ranks, watched to their end.
#pragma once
#include <csignal>
#include <string>
#include <vector>

namespace perf {

inline constexpr int kTimedOut = 124;
inline constexpr int kNotStarted = 127;

struct RunOptions {
  int ranks = 0;
  std::string rendezvous = "tcp";  ///< or "file"
  bool pin = false;                ///< give each rank its share of the cores
  bool label = false;              ///< else ranks write where this process does
  double timeout_s = 0;            ///< 0: none
  double grace_s = 5;              ///< for the others, once one has failed
  std::vector<std::string> command;
};

/// Runs the ranks; returns the exit code: 0, or that of the first rank that failed (128 + signal
/// where one killed it), 124 after the time-out, 127 if the program cannot be started.
///
/// The ranks are children of another process, the keeper. It outlives this one if that is killed,
/// and then kills everything that the ranks have started.
int run_ranks(const RunOptions& options);

/// What the keeper does, once: it starts the ranks with the blocked signals `before` and watches
/// them. It takes the signals in `ours`. `life` is a pipe that ends with the process that made it.
int keep_ranks(const RunOptions& options, const sigset_t& before, const sigset_t& ours, int life);

}  // namespace perf
