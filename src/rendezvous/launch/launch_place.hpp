// SPDX-License-Identifier: Apache-2.0
// Where the ranks of each launcher meet.
#pragma once
#include <string>
#include <string_view>

#include "rendezvous/launch/launch.hpp"

namespace coll {

/// A set of variables that says who this process is.
enum class Launcher { coll, torchrun, open_mpi, mpich, slurm };

/// The place for a job of this launcher: COLL_RENDEZVOUS, the launcher's own, or MASTER_*.
Result<MeetingPlace> launch_place(Launcher launcher, Rank size, const GetVariable& get);

/// "tcp://host:port" or "file:///path" as a place; `key` separates jobs that use the same
/// one, `secret` is COLL_SECRET, `source` says in messages where the text comes from.
Result<MeetingPlace> place_from_text(std::string_view text, std::string_view key,
                                     std::string_view secret, std::string source);

/// The first host of Slurm's list: "node[007-012,20],login" is "node007".
std::string first_host(std::string_view list);

}  // namespace coll
