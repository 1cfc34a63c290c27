// SPDX-License-Identifier: Apache-2.0
// The membership of a communicator that is like another one.
#include "communicator/membership/duplicate_membership.hpp"

#include <cstddef>
#include <utility>

#include "communicator/membership/membership_steps.hpp"
#include "rendezvous/control_message.hpp"

namespace coll {
namespace {

/// All but the transports, and where the paths lead.
std::unique_ptr<Membership> alike(const Membership& old) {
  auto made = std::make_unique<Membership>();
  made->world = old.world;
  made->members = old.members;
  made->credits = old.credits;
  made->neighbours = old.neighbours;
  made->own = old.own;
  made->offers = old.offers;
  made->paths.resize(old.paths.size());
  for (std::size_t peer = 0; peer < old.paths.size(); ++peer) {
    made->paths[peer].name = old.paths[peer].name;
  }
  return made;
}

}  // namespace

Result<DuplicateStart> start_duplicate(const Membership& old, Rank rank,
                                       const std::array<std::uint64_t, 2>& job, bool one_network,
                                       const std::vector<TransportChoice>& choices,
                                       const std::string& interface) {
  COLL_TRY(keep_room_for_one_more());
  DuplicateStart start{alike(old), {}};
  TransportSpec spec{
      rank, static_cast<Rank>(old.paths.size()), {job[0], job[1]}, interface, one_network};
  spec.numa_node = old.own.numa;
  COLL_ASSIGN(const std::vector<std::string> names,
              make_named_transports(spec, choices, *start.membership));
  MessageWriter reached;
  for (std::size_t i = 0; i < names.size(); ++i) {
    reached.text(names[i]).text(start.membership->transports[i]->descriptor());
  }
  start.reached = reached.bytes();
  return start;
}

Status finish_duplicate(const std::vector<std::string_view>& reached, Rank rank, Membership& out) {
  for (std::size_t peer = 0; peer < reached.size(); ++peer) {
    PeerPath& path = out.paths[peer];
    if (static_cast<Rank>(peer) == rank) continue;
    MessageReader in(reached[peer]);
    while (path.descriptor.empty() && in.good()) {
      const std::string name = in.text();
      std::string descriptor = in.text();
      if (in.good() && name == path.name) path.descriptor = std::move(descriptor);
    }
    if (path.descriptor.empty()) return unreadable(static_cast<Rank>(peer), "way to it");
  }
  return {};
}

}  // namespace coll
