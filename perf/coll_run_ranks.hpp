// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: processes started as ranks, watched to their end.
#pragma once
#include <string>
#include <vector>

namespace perf {

struct RunOptions {
  int ranks = 0;
  std::string rendezvous = "tcp";  ///< or "file"
  bool pin = false;                ///< give each rank its share of the cores
  bool prefix = true;
  double timeout_s = 0;  ///< 0: none
  double grace_s = 5;    ///< for the others, once one has failed
  std::vector<std::string> command;
};

/// Runs the ranks; returns the exit code: 0, or that of the first rank that failed (128 + signal
/// where one killed it), 124 after the time-out, 127 if the program cannot be started.
int run_ranks(const RunOptions& options);

}  // namespace perf
