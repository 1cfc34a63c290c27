// SPDX-License-Identifier: Apache-2.0
// The membership of a communicator that is like another one.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/membership/membership.hpp"

namespace coll {

/// What a rank of a duplicate makes before it hears of the others. The ranks keep their places,
/// paths and settings, and have no GPUs. So they agree on nothing: each learns only how the others
/// are reached.
struct DuplicateStart {
  std::unique_ptr<Membership> membership;  ///< its paths lead nowhere yet
  std::string reached;                     ///< how the others reach this rank
};

/// `job` is a name that these ranks alone know, and no other communicator's; `interface` is the
/// old one's.
Result<DuplicateStart> start_duplicate(const Membership& old, Rank rank,
                                       const std::array<std::uint64_t, 2>& job, bool one_network,
                                       const std::vector<TransportChoice>& choices,
                                       const std::string& interface);

/// `reached` are those of all ranks' starts, by rank.
Status finish_duplicate(const std::vector<std::string_view>& reached, Rank rank, Membership& out);

}  // namespace coll
