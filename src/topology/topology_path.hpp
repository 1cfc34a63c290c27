// SPDX-License-Identifier: Apache-2.0
// How far two of its parts are from each other, and what fits through what lies between them.
#pragma once
#include <algorithm>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// Makes `width` no wider than one more part of a way; 0 is unknown, and narrows nothing.
inline void narrow(double& width, double part) {
  if (part > 0) width = width > 0 ? std::min(width, part) : part;
}

/// The way between two GPUs, NICs or NUMA nodes.
struct Path {
  Distance distance = Distance::unknown;
  int links = 0;            ///< parallel links, where distance is `link`
  double gbytes_per_s = 0;  ///< the narrowest part, one direction, 1e9 bytes/s; 0: unknown. What
                            ///< lies between NUMA nodes is not in it
  friend bool operator==(const Path&, const Path&) = default;
};

/// GB/s between packages, one direction, where no source says: Xeon Scalable as NCCL plans with.
/// In no Path; where traffic that runs at once is added up.
inline constexpr double kBetweenPackages = 10;

/// The nearest way, over links if there are any; between hosts through the NICs nearest to both.
Path path_between(const Topology& topology, NodeId a, NodeId b);

/// The way through PCI and the processors only.
Path pci_path_between(const Topology& topology, NodeId a, NodeId b);

/// The parts that this way leads through: from `a` up, and then down to `b`, both of them with it;
/// without the part above both where it turns.
struct PciWay {
  std::vector<NodeId> up, down;
};
PciWay pci_way(const Topology& topology, NodeId a, NodeId b);

/// Links from `a` to `b` in this direction, direct or through a fabric of link switches.
Path link_path_between(const Topology& topology, NodeId a, NodeId b);

/// What fits through the network from one NIC to another, 1e9 bytes/s; 0: unknown, or no way.
double network_between(const Topology& topology, NodeId a, NodeId b);

/// The NIC of the same host that is nearest through PCI, the fastest of equally near ones; kNoNode
/// if there is none.
NodeId nearest_nic(const Topology& topology, NodeId id);

/// All ports of a NIC together, one direction, 1e9 bytes/s; 0: unknown.
double port_gbytes_per_s(const Node& nic);

/// GPUs that reach each other over links, each island sorted, single GPUs left out.
std::vector<std::vector<NodeId>> link_islands(const Topology& topology);

}  // namespace coll
