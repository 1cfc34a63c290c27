// SPDX-License-Identifier: Apache-2.0
// Places ranks on the parts of a machine.
#include "topology/rings/placement.hpp"

#include <algorithm>
#include <string>

#include "topology/rings/host_seats.hpp"

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

/// Rings over all ranks: one over each NIC where there are several hosts.
void add_rings(const Topology& topology, std::span<const Place> places, Placement& placement) {
  SearchBudget budget;
  const std::vector<NodeId>& gpus = placement.node;
  if (placement.layout.hosts() == 1) {
    const std::vector<HostPath> paths = host_paths(topology, gpus, true, budget);
    placement.layout = make_layout(places, {&paths, 1});
    return;
  }
  const std::vector<HostGroup> groups = host_groups(topology, gpus, budget);
  std::vector<std::vector<HostPath>> paths;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> ends;
  for (const HostGroup& group : groups) {
    std::vector<NodeId> members;
    for (const int place : group.places) members.push_back(gpus[static_cast<std::size_t>(place)]);
    paths.push_back(host_paths(topology, members, group.rings));
    auto& of = ends.emplace_back();
    for (const HostRing& ring : group.rings) of.emplace_back(ring.nic, ring.out);
  }
  placement.layout = make_layout(places, paths);
  const auto joined = joined_paths(ends);
  for (std::size_t number = 0; number < joined.size(); ++number) {
    const std::vector<Rank>& ring = placement.layout.rings[number];
    std::size_t at = 0;
    for (std::size_t from = 0; from < groups.size(); ++from) {
      const std::size_t to = (from + 1) % groups.size();
      const NodeId out = groups[from].rings[joined[number][from]].out;
      const NodeId in = groups[to].rings[joined[number][to]].nic;
      at += groups[from].places.size();
      if (out != kNoNode && in != kNoNode)
        placement.ring_hops.push_back({ring[at - 1], ring[at % ring.size()], out, in});
    }
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

  const GpuIslands islands = gpu_islands(topology);
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
    std::vector<RankUnit> ranks_here;
    for (Rank i = 0; i < here; ++i) {
      // GPUs are taken from the first on; cores so that all caches and memories are used.
      const auto at =
          on_gpus && here <= count ? i : static_cast<Rank>(std::int64_t{i} * count / here);
      const NodeId part = parts[static_cast<std::size_t>(at)];
      ranks_here.push_back({on_gpus ? part : kNoNode, topology[part].cpus});
      placement.node.push_back(part);
    }
    const HostSeats seats = seat_ranks(topology, host, ranks_here, islands);
    places.insert(places.end(), seats.places.begin(), seats.places.end());
    placement.nic.insert(placement.nic.end(), seats.nic.begin(), seats.nic.end());
    before += count;
  }
  placement.layout = make_layout(places);
  if (on_gpus && ranks > 1 && ranks <= units) {
    add_rings(topology, places, placement);
  }
  return placement;
}

}  // namespace coll
