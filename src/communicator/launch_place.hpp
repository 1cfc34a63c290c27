// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: where the ranks of each launcher meet.
#pragma once
#include <string>
#include <string_view>

#include "communicator/launch.hpp"

namespace coll {

/// A set of variables that says who this process is.
enum class Launcher { coll, torchrun, open_mpi, mpich, slurm };

/// The place for a job of this launcher: COLL_RENDEZVOUS, the launcher's own, or MASTER_*.
Result<MeetingPlace> launch_place(Launcher launcher, Rank size, const GetVariable& get);

/// The first host of Slurm's list: "node[007-012,20],login" is "node007".
std::string first_host(std::string_view list);

}  // namespace coll
