// SPDX-License-Identifier: Apache-2.0
// Rings through GPUs of many hosts, each over NICs of its own.
#pragma once
#include <span>
#include <vector>

#include "topology/rings/ring_search.hpp"
#include "topology/topology.hpp"

namespace coll {

/// The part of a ring that lies in one host: in through one NIC to the first GPU, from the last one
/// out through the same NIC, or one that is nearer to that GPU (ring_ends.hpp).
struct HostRing {
  NodeId nic = kNoNode;      ///< that it enters by; kNoNode where the host has none
  NodeId out = kNoNode;      ///< that it leaves by
  double gbytes_per_s = 0;   ///< of the narrowest hop by itself, 1e9 bytes/s; 0: unknown
  std::vector<NodeId> gpus;  ///< in order from entering to leaving
  friend bool operator==(const HostRing&, const HostRing&) = default;
};

/// Rings over more NICs of a host than this are not looked for: more than any host has.
inline constexpr std::size_t kMostNicRings = 128;

/// One for each NIC that serves these GPUs, all of one host (rail_nics). Each enters and leaves by
/// GPUs near its NIC, by others than the rings before as far as there are (ring_ends). Between them
/// as few hops as possible of the worst kind, and links that no ring before has taken. Exact up to
/// 16 GPUs, as best_ring. Without NICs one ring.
std::vector<HostRing> host_rings(const Topology& topology, std::span<const NodeId> gpus,
                                 SearchBudget& budget);
inline std::vector<HostRing> host_rings(const Topology& topology, std::span<const NodeId> gpus) {
  SearchBudget budget;
  return host_rings(topology, gpus, budget);
}

/// The members of a group of GPUs that are in one host, and its rings.
struct HostGroup {
  NodeId host = kNoNode;
  std::vector<int> places;  ///< of the members in the group
  std::vector<HostRing> rings;
};

/// The hosts of a group, in the order of the topology. Equal hosts are searched once.
std::vector<HostGroup> host_groups(const Topology& topology, std::span<const NodeId> gpus,
                                   SearchBudget& budget);

/// One ring through GPUs of any hosts.
struct NicRing {
  double gbytes_per_s = 0;      ///< of the narrowest hop by itself, also between hosts; 0: unknown
  std::vector<HostRing> hosts;  ///< in the order of the topology, so neighbours in racks are next
  std::vector<int> order;       ///< places in the group, host after host
};

/// As many rings as the host with the fewest NICs for these GPUs has of them, each into every host
/// by one NIC, no two by the same. A ring that leaves a host by another NIC than it entered by goes
/// on by that NIC of the next host, so it stays on a rail (joined_paths).
std::vector<NicRing> nic_rings(const Topology& topology, std::span<const NodeId> gpus,
                               SearchBudget& budget);
inline std::vector<NicRing> nic_rings(const Topology& topology, std::span<const NodeId> gpus) {
  SearchBudget budget;
  return nic_rings(topology, gpus, budget);
}

/// What all rings move together when they run at once, in 1e9 bytes/s. The part with the least
/// width for each ring that uses it decides: a NIC's port, a PCI link, links between GPUs, or what
/// is assumed between packages. 0: unknown.
double rings_gbytes_per_s(const Topology& topology, std::span<const NicRing> rings);

/// Orders of the group for rings that can run at once, at least one. Within one host: rings over
/// links of their own if there are any, else the best ring. Between hosts: the rings of nic_rings.
std::vector<std::vector<int>> ring_orders(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
