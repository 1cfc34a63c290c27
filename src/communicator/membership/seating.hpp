// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one host sit on it, as the host's first rank finds it for all ranks.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "communicator/membership/card.hpp"
#include "communicator/membership/reach.hpp"
#include "planner/networks/device_ways.hpp"
#include "topology/layout.hpp"

namespace coll {

/// Numbers of a host count alike for all ranks because one rank counts them. Searches for rings are
/// its alone, too; so all ranks follow the same orders, and machines need not be on cards.
struct Seating {
  std::vector<Place> places;    ///< of the host's ranks in order, `host` unset; none: nobody looked
  std::vector<HostPath> paths;  ///< of rings; none where not every rank has a GPU of its own
  DeviceWays ways = {};         ///< between the GPUs that ranks name; none where no rank names one

  void write(MessageWriter& out) const;
  /// What another rank published; nothing where it makes no sense.
  static std::optional<Seating> read(MessageReader& in);
  /// Whether it seats exactly `ranks` ranks, or none.
  [[nodiscard]] bool fits(std::size_t ranks) const;
  friend bool operator==(const Seating&, const Seating&) = default;
};

/// At most this many paths are published: a plan has no more lanes (World::max_lanes).
/// Calls move memory of hosts, so no path has links of its own: each costs connections, and more
/// than one pays only where each has a NIC. So a single host has one path.
inline constexpr std::size_t kMostPaths = 4;
/// Paths through more ranks are not published either.
inline constexpr std::size_t kMostOnPath = 256;

/// The seating of the ranks of one host, in order; `alone`: there is no other host. Empty, unless a
/// rank names a device or the host is `described` (OwnPlace).
Seating seat_host(const std::vector<Card>& cards, std::span<const Rank> ranks, bool alone,
                  bool described);

/// The seatings that ranks published, by rank: those of the first rank of each host, and of the
/// first rank of those whose GPUs may reach each other.
struct Seatings {
  std::vector<Seating> hosts, gpus;
};

/// The first rank of those that share a host of a layout, by rank. Processors move messages in
/// memory that ranks share (Reach::host).
std::vector<Rank> firsts_of_hosts(const std::vector<Reach>& reaches);
/// For what GPUs move, a host is the ranks whose GPUs may reach each other (Card::ipc_domain).
/// Messages of others are staged as between hosts.
std::vector<Rank> firsts_of_gpus(const std::vector<Card>& cards);

/// The layout of all ranks, whose hosts have these first ranks. `seatings` are by rank, and count
/// if the rank is its host's first and they fit the ranks there (which two ranks may see
/// differently, where memory is shared by some pairs only); `rank` 0 warns of others. Elsewhere the
/// NUMA nodes are the cards'.
Layout layout_of(const std::vector<Card>& cards, const std::vector<Rank>& firsts,
                 const std::vector<Seating>& seatings, Rank rank);

/// The ways on each host of that layout; none on one whose seating does not fit its ranks.
std::vector<DeviceWays> ways_by_host(const std::vector<Rank>& firsts,
                                     const std::vector<Seating>& seatings);

}  // namespace coll
