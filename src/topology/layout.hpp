// SPDX-License-Identifier: Apache-2.0
// The layout: all that an algorithm may know of the machine.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// Where one rank is, as numbers that mean the same on every rank; -1 where unknown.
struct Place {
  std::int64_t host = 0;     ///< equal for ranks that share a host, and only for these
  std::int32_t numa = -1;    ///< NUMA node of its host
  std::int32_t island = -1;  ///< of its host: GPUs that reach each other over links
  std::int32_t rail = -1;    ///< which of its host's NICs is its nearest; counts alike on all hosts
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
  /// Orders of all ranks for ring algorithms, hosts in one piece each; at least one.
  std::vector<std::vector<Rank>> rings;

  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(host.size()); }
  [[nodiscard]] Rank hosts() const { return static_cast<Rank>(members.size()); }
  [[nodiscard]] const std::vector<Rank>& members_of(Rank host_number) const {
    return members[static_cast<std::size_t>(host_number)];
  }
  friend bool operator==(const Layout&, const Layout&) = default;

  /// All ranks on one host.
  static Layout flat(Rank ranks);
};

/// The layout of ranks at these places, with one ring.
Layout make_layout(std::span<const Place> places);

}  // namespace coll
