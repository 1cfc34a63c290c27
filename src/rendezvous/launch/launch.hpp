// SPDX-License-Identifier: Apache-2.0
// Who this process is, from the launcher's variables.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/rendezvous.hpp"

namespace coll {

struct Launch {
  Rank rank = kNoRank;
  Rank size = 0;
  Rank local_rank =
      kNoRank;  ///< a hint only: what processes really share is found out, not believed
  MeetingPlace place;
  std::string launcher;  ///< "COLL_*", "torchrun", "Open MPI", "MPICH", "Slurm"
};

/// The value of a variable, null: not set. (Set but empty counts as not set.)
using GetVariable = std::function<const char*(const char*)>;

/// Reads COLL_*, torchrun's, Open MPI's, MPICH's (PMI) and Slurm's variables through `get`.
///
/// COLL_RANK with COLL_SIZE decide who this is, COLL_RENDEZVOUS where to meet, over all others.
/// Else the first complete set of that order; two that disagree on rank or size are refused with a
/// message that names both, as are incomplete ones. Slurm's set alone yields without a word: srun
/// starts torchrun, and mpirun its daemons, whose processes inherit it; and so do the processes of
/// an interactive `srun --pty`. It counts only in a step: a batch script is none. Where a launcher
/// brings no place of its own, MASTER_ADDR and MASTER_PORT are taken if set. Nothing set: an error
/// listing what was looked for.
Result<Launch> read_launch(const GetVariable& get);

}  // namespace coll
