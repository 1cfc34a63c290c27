// SPDX-License-Identifier: Apache-2.0
// What all ways to a membership have in common.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "communicator/membership/membership.hpp"
#include "communicator/membership/reach.hpp"
#include "communicator/membership/seating.hpp"
#include "planner/networks/device_network.hpp"

namespace coll {

/// This rank, and the other ranks whose paths are `such`.
template <class Such>
std::vector<Rank> with_peers(Rank rank, const Membership& membership, Such such) {
  std::vector<Rank> ranks;
  for (std::size_t peer = 0; peer < membership.paths.size(); ++peer) {
    if (static_cast<Rank>(peer) == rank || such(membership.paths[peer].capabilities())) {
      ranks.push_back(static_cast<Rank>(peer));
    }
  }
  return ranks;
}

/// Leaves room for the descriptors of one more communicator, or says what is open and how to raise
/// the limit.
Status keep_room_for_one_more();

/// Makes the transports that the paths of `out` name, in the order of the choices. Returns their
/// names.
Result<std::vector<std::string>> make_named_transports(const TransportSpec& spec,
                                                       const std::vector<TransportChoice>& choices,
                                                       Membership& out);

/// The same ranks, for plans of calls that their GPUs move. Those whose GPUs may reach each other
/// are on one host of its layout, whatever memory their processes share. `seatings` are theirs.
std::shared_ptr<const World> world_of_gpus(const World& hosts, const std::vector<Card>& cards,
                                           const std::vector<Seating>& seatings, Rank rank,
                                           DeviceMoves moves);

/// Makes the world that all ranks plan by, from what they say of themselves, of their paths and of
/// their hosts; the paths of `out` are there.
Status finish_membership(const std::vector<Card>& cards, const std::vector<Reach>& reaches,
                         const Seatings& seatings, Rank rank, Membership& out);

}  // namespace coll
