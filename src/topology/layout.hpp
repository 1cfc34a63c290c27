// SPDX-License-Identifier: Apache-2.0
// The layout: all that an algorithm may know of the machine.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// Where one rank is, as numbers that mean the same on every rank; -1 where unknown.
struct Place {
  std::int64_t host = 0;     ///< equal for ranks that share a host, and only for these
  std::int32_t numa = -1;    ///< NUMA node of its host
  std::int32_t island = -1;  ///< of its host: GPUs that reach each other over links
  std::int32_t rail = -1;    ///< which of its host's NICs is its nearest; counts alike on all hosts
  friend bool operator==(const Place&, const Place&) = default;
};

/// The part of a ring that lies in one host: through all of the host's ranks.
struct HostPath {
  /// Which of the host's ranks, by number from 0 on, in the order from entering to leaving.
  std::vector<std::int32_t> order;
  std::int32_t in = -1;   ///< rail of the NIC that it enters by; -1: none
  std::int32_t out = -1;  ///< rail of the NIC that it leaves by
  friend bool operator==(const HostPath&, const HostPath&) = default;
};

/// The ranks grouped by what they share, the same value on every rank. Algorithms see this, never
/// the machine and never a byte count. Groups are numbered from 0 by their first rank, so that they
/// do not depend on what else they are called.
struct Layout {
  std::vector<std::int32_t> host;    ///< of each rank
  std::vector<std::int32_t> numa;    ///< of each rank: NUMA node, over all hosts
  std::vector<std::int32_t> island;  ///< of each rank: GPU island, over all hosts
  std::vector<std::int32_t> rail;    ///< of each rank: ranks of all hosts with the same NIC
  /// The ranks of each host, by rail and NUMA node, then by rank: members with equal places in two
  /// hosts are best connected.
  std::vector<std::vector<Rank>> members;
  /// Orders of all ranks for rings and trees; at least one. The hosts stand in the order of their
  /// numbers, each in one piece. Several can be used at once: in hosts they go over links of their
  /// own, between hosts over NICs of their own.
  std::vector<std::vector<Rank>> rings;
  /// The order for chains and trees that use only one: the only ring. Of several rings each has
  /// only a part of the NICs; then the hosts' members.
  std::vector<Rank> line;

  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(host.size()); }
  [[nodiscard]] Rank hosts() const { return static_cast<Rank>(members.size()); }
  [[nodiscard]] const std::vector<Rank>& members_of(Rank host_number) const {
    return members[static_cast<std::size_t>(host_number)];
  }
  /// No rank before it is on its host.
  [[nodiscard]] bool is_first_of_its_host(Rank rank) const {
    const auto own = host.begin() + rank;
    return std::find(host.begin(), own, *own) == own;
  }
  friend bool operator==(const Layout&, const Layout&) = default;

  /// All ranks on one host.
  static Layout flat(Rank ranks);
};

/// The layout of ranks at these places, with one ring.
Layout make_layout(std::span<const Place> places);

/// The same with the rings that these paths make: `paths[h]` are the paths of the h-th host, where
/// hosts count by their first rank. Each ring takes a path of every host, so the host with the
/// fewest paths limits the rings. If a host has no path, there is one ring, as above.
Layout make_layout(std::span<const Place> places, std::span<const std::vector<HostPath>> paths);

/// For each ring, host by host, which of the host's paths it takes; `ends[h]` holds `in` and `out`
/// of the paths of host h. A ring that leaves a host by another rail than it entered by goes on by
/// that rail, if all hosts have it and no two rings would then enter by the same.
std::vector<std::vector<std::size_t>> joined_paths(
    std::span<const std::vector<std::pair<std::int32_t, std::int32_t>>> ends);

/// What the layout says of a rank and of orders, for a person, in lines; "" where it says no more
/// than which ranks share a host.
std::string to_text(const Layout& layout, Rank rank);

}  // namespace coll
