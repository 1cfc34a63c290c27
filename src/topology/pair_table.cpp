// SPDX-License-Identifier: Apache-2.0
// What holds between each two of a group.
#include "topology/pair_table.hpp"

#include <unordered_map>

#include "topology/topology_path.hpp"

namespace coll {

PairTable distance_table(const Topology& topology, std::span<const NodeId> gpus) {
  PairTable table = link_table(topology, gpus);
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      int& entry = table.at(static_cast<int>(a), static_cast<int>(b));
      const Distance distance =
          entry > 0 ? Distance::link : path_between(topology, gpus[a], gpus[b]).distance;
      entry = static_cast<int>(distance);
    }
  return table;
}

PairTable link_table(const Topology& topology, std::span<const NodeId> gpus) {
  PairTable table(static_cast<int>(gpus.size()));
  std::unordered_map<NodeId, int> place;
  for (std::size_t at = 0; at < gpus.size(); ++at) place.emplace(gpus[at], static_cast<int>(at));
  for (std::size_t from = 0; from < gpus.size(); ++from)
    for (const Link& link : topology.links_from(gpus[from]))
      if (const auto to = place.find(link.to); to != place.end())
        if (int& links = table.at(static_cast<int>(from), to->second); links < kMostParallel)
          links += link.count;
  return table;
}

}  // namespace coll
