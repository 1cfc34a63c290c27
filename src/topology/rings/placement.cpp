// SPDX-License-Identifier: Apache-2.0
// Places ranks on the parts of a machine.
#include "topology/rings/placement.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "topology/rail_nics.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

/// What ranks are placed on, in a host.
std::vector<NodeId> units_of(const Topology& topology, NodeId host, bool on_gpus) {
  if (on_gpus) return topology.parts(host, NodeKind::gpu);
  for (const NodeKind kind : {NodeKind::core, NodeKind::pu, NodeKind::numa, NodeKind::package}) {
    std::vector<NodeId> parts = topology.parts(host, kind);
    if (kind == NodeKind::numa) {
      std::erase_if(parts, [&](NodeId id) { return topology[id].cpus.empty(); });
    }
    if (!parts.empty()) return parts;
  }
  return {host};
}

std::int32_t numa_of(const Topology& topology, NodeId host, NodeId unit) {
  const Node& node = topology[unit];
  if (!node.numa.empty()) return node.numa.size() == 1 ? node.numa[0] : -1;
  std::int32_t found = -1;
  for (const NodeId numa : topology.parts(host, NodeKind::numa)) {
    if (numa != unit && !topology[numa].cpus.intersects(node.cpus)) continue;
    if (found >= 0) return -1;
    found = topology[numa].index;
  }
  return found;
}

/// The NICs of a host, and how many ranks use each.
class NicChoice {
 public:
  NicChoice(const Topology& topology, NodeId host)
      : topology_(topology),
        host_(host),
        nics_(rail_nics(topology, host)),
        users_(nics_.size(), 0) {}

  /// The nearest to a part, of equally near ones the least used; its number, -1 if there is none.
  std::int32_t take(NodeId unit) {
    std::size_t best = nics_.size();
    Distance nearest = Distance::unknown;
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      const Distance distance = distance_to(unit, nics_[i]);
      if (best < nics_.size() &&
          std::pair(distance, users_[i]) >= std::pair(nearest, users_[best])) {
        continue;
      }
      best = i;
      nearest = distance;
    }
    if (best == nics_.size()) return -1;
    ++users_[best];
    return static_cast<std::int32_t>(best);
  }
  [[nodiscard]] NodeId nic(std::int32_t rail) const {
    return rail < 0 ? kNoNode : nics_[static_cast<std::size_t>(rail)];
  }

 private:
  /// Of a GPU through PCI, of a processor by NUMA node.
  [[nodiscard]] Distance distance_to(NodeId unit, NodeId nic) const {
    if (topology_[unit].kind == NodeKind::gpu) {
      return pci_path_between(topology_, unit, nic).distance;
    }
    const std::int32_t numa = numa_of(topology_, host_, unit);
    const std::vector<std::int32_t>& near = topology_[nic].numa;
    return numa < 0 || near.empty() || std::ranges::find(near, numa) != near.end() ? Distance::node
                                                                                   : Distance::sys;
  }

  const Topology& topology_;
  NodeId host_;
  std::vector<NodeId> nics_;
  std::vector<int> users_;
};

/// Rings over all ranks: one over each NIC where there are several hosts.
void add_rings(const Topology& topology, Placement& placement) {
  std::vector<std::vector<Rank>>& rings = placement.layout.rings;
  if (placement.layout.hosts() == 1) {
    rings = ring_orders(topology, placement.node);
    return;
  }
  rings.clear();
  for (NicRing& ring : nic_rings(topology, placement.node)) {
    std::vector<RingHop> hops;
    std::size_t place = 0;
    for (const HostRing& host : ring.hosts) {
      const Rank first = ring.order[place];
      place += host.gpus.size();
      hops.push_back({ring.order[place - 1], 0, host.out, kNoNode});
      RingHop& before = hops[hops.size() > 1 ? hops.size() - 2 : 0];
      before.to = first;
      before.in = host.nic;
    }
    hops.back().to = ring.order[0];
    hops.back().in = ring.hosts[0].nic;
    std::erase_if(hops, [](const RingHop& hop) { return hop.out == kNoNode || hop.in == kNoNode; });
    placement.ring_hops.insert(placement.ring_hops.end(), hops.begin(), hops.end());
    rings.push_back(std::move(ring.order));
  }
}

}  // namespace

Result<Placement> place_ranks(const Topology& topology, Rank ranks) {
  if (ranks < 1) {
    return failed(Code::invalid_argument, "cannot place " + std::to_string(ranks) + " ranks",
                  "ask for at least one");
  }
  const bool on_gpus = topology.count(NodeKind::gpu) > 0;
  std::vector<std::pair<NodeId, std::vector<NodeId>>> hosts;
  Rank units = 0;
  for (const NodeId host : topology.all(NodeKind::host)) {
    hosts.emplace_back(host, units_of(topology, host, on_gpus));
    units += static_cast<Rank>(hosts.back().second.size());
  }
  if (units == 0) {
    return failed(Code::invalid_argument, topology.source + " has no host to place ranks on",
                  "give a topology of at least one host");
  }

  std::unordered_map<NodeId, std::int32_t> islands;
  for (const std::vector<NodeId>& island : link_islands(topology)) {
    for (const NodeId gpu : island) islands[gpu] = island[0];
  }
  Placement placement;
  std::vector<Place> places;
  Rank before = 0;  // parts of earlier hosts
  for (const auto& [host, parts] : hosts) {
    // Crowded: part u has ranks u*ranks/units … (u+1)*ranks/units-1. Else hosts are filled.
    const auto count = static_cast<Rank>(parts.size());
    const auto share = [&](Rank unit) {
      return static_cast<Rank>(std::int64_t{unit} * ranks / units);
    };
    const Rank here = ranks > units ? share(before + count) - share(before)
                                    : std::min(count, ranks - static_cast<Rank>(places.size()));
    NicChoice nics(topology, host);
    for (Rank i = 0; i < here; ++i) {
      // GPUs are taken from the first on; cores so that all caches and memories are used.
      const auto at =
          on_gpus && here <= count ? i : static_cast<Rank>(std::int64_t{i} * count / here);
      const NodeId unit = parts[static_cast<std::size_t>(at)];
      const std::int32_t rail = nics.take(unit);
      const auto island = islands.find(unit);
      places.push_back({.host = host,
                        .numa = numa_of(topology, host, unit),
                        .island = island != islands.end() ? island->second
                                  : on_gpus               ? unit
                                                          : -1,
                        .rail = rail});
      placement.node.push_back(unit);
      placement.nic.push_back(nics.nic(rail));
    }
    before += count;
  }
  placement.layout = make_layout(places);
  if (on_gpus && ranks > 1 && ranks <= units) {
    add_rings(topology, placement);
  }
  return placement;
}

}  // namespace coll
