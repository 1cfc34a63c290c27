// SPDX-License-Identifier: Apache-2.0
// Seats the ranks of one host.
#include "topology/rings/host_seats.hpp"

#include <algorithm>

#include "topology/rail_nics.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

std::int32_t numa_of(const Topology& topology, NodeId host, const RankUnit& unit) {
  const CpuSet* cpus = &unit.cpus;
  if (unit.gpu != kNoNode) {
    const Node& gpu = topology[unit.gpu];
    if (!gpu.numa.empty()) return gpu.numa.size() == 1 ? gpu.numa[0] : -1;
    cpus = &gpu.cpus;
  }
  std::int32_t found = -1;
  for (const NodeId numa : topology.parts(host, NodeKind::numa)) {
    if (!topology[numa].cpus.intersects(*cpus)) continue;
    if (found >= 0) return -1;
    found = topology[numa].index;
  }
  return found;
}

/// The NICs of a host, and how many ranks use each.
class NicChoice {
 public:
  NicChoice(const Topology& topology, NodeId host)
      : topology_(topology), nics_(rail_nics(topology, host)), users_(nics_.size(), 0) {}

  /// The nearest to a rank, of equally near ones the least used; its number, -1 if there is none.
  std::int32_t take(const RankUnit& unit, std::int32_t numa) {
    std::size_t best = nics_.size();
    Distance nearest = Distance::unknown;
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      const Distance distance = distance_to(unit, numa, nics_[i]);
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
  /// A GPU's distance through PCI; processors' distance by NUMA node.
  [[nodiscard]] Distance distance_to(const RankUnit& unit, std::int32_t numa, NodeId nic) const {
    if (unit.gpu != kNoNode) return pci_path_between(topology_, unit.gpu, nic).distance;
    const std::vector<std::int32_t>& near = topology_[nic].numa;
    return numa < 0 || near.empty() || std::ranges::find(near, numa) != near.end() ? Distance::node
                                                                                   : Distance::sys;
  }

  const Topology& topology_;
  std::vector<NodeId> nics_;
  std::vector<int> users_;
};

}  // namespace

GpuIslands gpu_islands(const Topology& topology) {
  GpuIslands islands;
  for (const std::vector<NodeId>& island : link_islands(topology)) {
    for (const NodeId gpu : island) islands[gpu] = island[0];
  }
  return islands;
}

HostSeats seat_ranks(const Topology& topology, NodeId host, std::span<const RankUnit> ranks,
                     const GpuIslands& islands) {
  HostSeats seats;
  NicChoice nics(topology, host);
  for (const RankUnit& unit : ranks) {
    const auto island = islands.find(unit.gpu);
    const std::int32_t numa = numa_of(topology, host, unit);
    const std::int32_t rail = nics.take(unit, numa);
    seats.places.push_back({.host = host,
                            .numa = numa,
                            .island = island != islands.end() ? island->second : unit.gpu,
                            .rail = rail});
    seats.nic.push_back(nics.nic(rail));
  }
  return seats;
}

std::vector<HostPath> host_paths(const Topology& topology, std::span<const NodeId> gpus,
                                 std::span<const HostRing> rings) {
  std::vector<HostPath> paths;
  if (gpus.empty()) return paths;
  const std::vector<NodeId> nics = rail_nics(topology, topology.above(gpus[0], NodeKind::host));
  const auto number_in = [](std::span<const NodeId> nodes, NodeId node) {
    const auto at = std::ranges::find(nodes, node);
    return at == nodes.end() ? -1 : static_cast<std::int32_t>(at - nodes.begin());
  };
  for (const HostRing& ring : rings) {
    HostPath& path = paths.emplace_back();
    path.in = number_in(nics, ring.nic);
    path.out = number_in(nics, ring.out);
    for (const NodeId gpu : ring.gpus) path.order.push_back(number_in(gpus, gpu));
  }
  return paths;
}

std::vector<HostPath> host_paths(const Topology& topology, std::span<const NodeId> gpus, bool alone,
                                 SearchBudget& budget) {
  if (!alone || gpus.size() < 2) {
    return host_paths(topology, gpus, host_rings(topology, gpus, budget));
  }
  std::vector<HostPath> paths;
  for (std::vector<int>& order : ring_orders(topology, gpus)) {
    paths.push_back({.order = std::move(order)});
  }
  return paths;
}

}  // namespace coll
