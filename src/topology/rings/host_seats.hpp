// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one host sit: NUMA node, island, rail, and the paths of rings through them.
#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "topology/layout.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/topology.hpp"

namespace coll {

/// What a rank uses: a GPU, or else some of the host's processors.
struct RankUnit {
  NodeId gpu = kNoNode;
  CpuSet cpus;
};

/// The ranks of one host, in the order of ranks.
struct HostSeats {
  std::vector<Place> places;  ///< `host` is the host's NodeId
  std::vector<NodeId> nic;    ///< of each rank: the nearest; kNoNode without any
};

/// Of each GPU that has links to other GPUs, the first GPU of its island (link_islands).
using GpuIslands = std::unordered_map<NodeId, NodeId>;
GpuIslands gpu_islands(const Topology& topology);

/// Seats ranks on what they use. Of NICs that are equally near, ranks take turns. A GPU without
/// links is an island of its own; processors are in none.
HostSeats seat_ranks(const Topology& topology, NodeId host, std::span<const RankUnit> ranks,
                     const GpuIslands& islands);

/// The paths of rings through these GPUs, all different and all of one host, in the order of ranks.
/// If the host is `alone`, they are closed rings (ring_orders), else there is one over each NIC
/// (host_rings).
std::vector<HostPath> host_paths(const Topology& topology, std::span<const NodeId> gpus, bool alone,
                                 SearchBudget& budget);

/// The same from rings that were found before.
std::vector<HostPath> host_paths(const Topology& topology, std::span<const NodeId> gpus,
                                 std::span<const HostRing> rings);

}  // namespace coll
