// SPDX-License-Identifier: Apache-2.0
// Whether each member of a group reaches each other at once.
#pragma once
#include <span>
#include <string_view>

#include "topology/topology.hpp"

namespace coll {

enum class DirectPattern : std::uint8_t {
  none,    ///< some pairs are joined otherwise than others
  mesh,    ///< each pair by links of its own
  fabric,  ///< each by links to switches that join them all
};
std::string_view name_of(DirectPattern pattern);

struct Direct {
  DirectPattern pattern = DirectPattern::none;
  int links = 0;            ///< of a pair, or of each member to the switches
  double gbytes_per_s = 0;  ///< of these together, 1e9 bytes/s; 0: unknown
  friend bool operator==(const Direct&, const Direct&) = default;
};

/// Everybody can send to everybody, and nobody farther than to others: then one step is as good as
/// a ring of many. Groups of one have no pattern.
Direct direct_pattern(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
