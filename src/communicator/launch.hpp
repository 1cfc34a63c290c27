// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: who this process is, from the launcher's
// variables.
#pragma once
#include <functional>
#include <string>

#include "communicator/rendezvous.hpp"

namespace coll {

struct Launch {
  Rank rank = kNoRank;
  Rank size = 0;
  Rank local_rank =
      kNoRank;  ///< a hint only: what processes really share is found out, not believed
  MeetingPlace place;
  std::string launcher;  ///< "COLL_*", "torchrun", "Open MPI", "MPICH", "Slurm"
};

/// Reads COLL_*, torchrun's, Open MPI's, MPICH's (PMI) and Slurm's variables through `get` (null:
/// not set). COLL_* decide where set; otherwise two complete sets that disagree on rank or size are
/// refused with a message naming both, as are incomplete sets. Nothing set: an error listing what
/// was looked for. `generation` counts the communicators this process made from its environment; it
/// enters the key.
Result<Launch> read_launch(const std::function<const char*(const char*)>& get, unsigned generation);

}  // namespace coll
