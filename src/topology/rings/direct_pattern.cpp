// SPDX-License-Identifier: Apache-2.0
// All pairs compared with the first.
#include "topology/rings/direct_pattern.hpp"

#include <array>

#include "topology/pair_table.hpp"
#include "topology/topology_path.hpp"

namespace coll {

std::string_view name_of(DirectPattern pattern) {
  constexpr std::array<std::string_view, 3> names{"none", "mesh", "fabric"};
  return names[static_cast<std::size_t>(pattern)];
}

Direct direct_pattern(const Topology& topology, std::span<const NodeId> gpus) {
  if (gpus.size() < 2) return {};
  const Path first = link_path_between(topology, gpus[0], gpus[1]);
  if (first.distance != Distance::link) return {};
  const PairTable direct = link_table(topology, gpus);
  const bool mesh = direct.at(0, 1) > 0;
  for (int a = 0; a < direct.members(); ++a)
    for (int b = 0; b < direct.members(); ++b) {
      if (a == b) continue;
      if (mesh ? direct.at(a, b) != first.links : direct.at(a, b) > 0) return {};
      const NodeId from = gpus[static_cast<std::size_t>(a)], to = gpus[static_cast<std::size_t>(b)];
      if (link_path_between(topology, from, to) != first) return {};
    }
  return {mesh ? DirectPattern::mesh : DirectPattern::fabric, first.links, first.gbytes_per_s};
}

}  // namespace coll
