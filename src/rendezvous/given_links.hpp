// SPDX-License-Identifier: Apache-2.0
// A meeting over sockets that are connected already.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/handshake.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/clock.hpp"

namespace coll {

/// The links of `rank`, by rank: duplicates of the program's sockets. Rank 0 gives one for each
/// rank, its own ignored; the others give one.
Result<std::vector<Fd>> duplicate_links(const int* fds, Rank rank, Rank size);

/// Meets over a star of stream sockets: rank 0 has one to each rank, the others one to rank 0; as
/// in Meeting::links. The meeting has duplicates. Each end proves the key and says who it is, so
/// that sockets that lead to another rank, job or size are found out. Fails by the deadline, or as
/// soon as a socket is closed, on all ranks.
Result<Meeting> meet_over(const std::vector<Fd>& links, const std::string& key, const Claimant& me,
                          Deadline deadline);

}  // namespace coll
