// SPDX-License-Identifier: Apache-2.0
// Starts a process that becomes a rank.
#pragma once
#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "coll_run/coll_run_environment.hpp"

namespace perf {

struct RankStart {
  int rank = 0;
  int ranks = 1;
  bool pin = false;
  bool piped = true;                  ///< else it writes where this process does
  const sigset_t* signals = nullptr;  ///< what it blocks
  const JobEnvironment* job = nullptr;
  const std::vector<std::string>* command = nullptr;
};

struct StartedRank {
  pid_t pid = -1;  ///< below 0: there is no process
  int why = 0;     ///< errno, where the program does not run
  int out = -1;    ///< the read ends, of which the caller takes care
  int error = -1;
};

/// Starts a child in a process group of its own that dies with this process, and waits until it
/// runs the program or cannot.
StartedRank start_rank(const RankStart& how);

}  // namespace perf
