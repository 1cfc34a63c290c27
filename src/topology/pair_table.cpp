// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: what holds between each two of a group.
#include "topology/pair_table.hpp"

#include <algorithm>

#include "topology/topology_path.hpp"

namespace coll {

PairTable distance_table(const Topology& topology, std::span<const NodeId> gpus) {
  PairTable table(static_cast<int>(gpus.size()));
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = 0; b < gpus.size(); ++b)
      table.at(static_cast<int>(a), static_cast<int>(b)) =
          static_cast<int>(path_between(topology, gpus[a], gpus[b]).distance);
  return table;
}

PairTable link_table(const Topology& topology, std::span<const NodeId> gpus) {
  PairTable table(static_cast<int>(gpus.size()));
  for (std::size_t from = 0; from < gpus.size(); ++from)
    for (const Link& link : topology.links_from(gpus[from])) {
      const auto to = std::find(gpus.begin(), gpus.end(), link.to);
      if (to != gpus.end())
        table.at(static_cast<int>(from), static_cast<int>(to - gpus.begin())) += link.count;
    }
  return table;
}

}  // namespace coll
