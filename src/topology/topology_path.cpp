// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: distances and bandwidths.
#include "topology/topology_path.hpp"

#include <algorithm>
#include <set>

namespace coll {
namespace {

bool on_pci(NodeKind kind) {
  return kind == NodeKind::pci_switch || kind == NodeKind::pci_port ||
         kind == NodeKind::host_bridge;
}

/// From a device up to the host.
std::vector<NodeId> chain(const Topology& topology, NodeId id) {
  std::vector<NodeId> nodes;
  for (; id != kNoNode; id = topology[id].parent) nodes.push_back(id);
  return nodes;
}

/// Levels of switches strictly between a device and `top`, in ports: a whole switch is two.
int levels_below(const Topology& topology, const std::vector<NodeId>& nodes, NodeId top) {
  int levels = 0;
  for (std::size_t at = 1; at < nodes.size() && nodes[at] != top; ++at)
    levels += topology[nodes[at]].kind == NodeKind::pci_switch ? 2 : 1;
  return levels;
}

void narrow(double& width, double part) {
  if (part > 0) width = width > 0 ? std::min(width, part) : part;
}

std::vector<std::int32_t> numa_of(const Topology& topology, NodeId id) {
  return topology[id].kind == NodeKind::numa ? std::vector{topology[id].index} : topology[id].numa;
}

/// Of two parts of a host that meet above all host bridges.
Distance across_bridges(const Topology& topology, NodeId a, NodeId b, NodeId host) {
  const auto near_a = numa_of(topology, a), near_b = numa_of(topology, b);
  const bool unknown = near_a.empty() || near_b.empty();
  if (unknown) {
    int nodes = 0;
    for (const NodeId numa : topology.all(NodeKind::numa))
      nodes += topology.above(numa, NodeKind::host) == host ? 1 : 0;
    return nodes > 1 ? Distance::sys : Distance::node;
  }
  const bool shared = std::any_of(near_a.begin(), near_a.end(), [&](std::int32_t each) {
    return std::find(near_b.begin(), near_b.end(), each) != near_b.end();
  });
  return shared ? Distance::node : Distance::sys;
}

}  // namespace

Path pci_path_between(const Topology& topology, NodeId a, NodeId b) {
  Path path;
  if (a == b) return {Distance::self, 0, 0};
  const std::vector<NodeId> from_a = chain(topology, a), from_b = chain(topology, b);
  NodeId top = kNoNode;
  for (const NodeId each : from_a)
    if (std::find(from_b.begin(), from_b.end(), each) != from_b.end()) {
      top = each;
      break;
    }
  for (const auto* nodes : {&from_a, &from_b})
    for (const NodeId each : *nodes) {
      if (each == top) break;
      narrow(path.gbytes_per_s, topology[each].pci.gbytes_per_s);
    }
  if (top == kNoNode) {
    path.distance = Distance::net;
  } else if (topology[top].kind == NodeKind::host_bridge) {
    path.distance = Distance::phb;
  } else if (on_pci(topology[top].kind)) {
    const int levels =
        std::max(levels_below(topology, from_a, top), levels_below(topology, from_b, top));
    path.distance = levels <= 1 ? Distance::pix : Distance::pxb;
  } else if (top == a || top == b) {
    path.distance = Distance::node;  // a device and the memory it is plugged in beside
  } else {
    path.distance = across_bridges(topology, a, b, from_a.back());
  }
  for (const ToldDistance& told : topology.told)
    if (told.a == std::min(a, b) && told.b == std::max(a, b)) path.distance = told.distance;
  return path;
}

Path link_path_between(const Topology& topology, NodeId a, NodeId b) {
  Path direct, through;
  for (const Link& link : topology.links) {
    if (link.from != a || link.kind == LinkKind::network) continue;
    if (link.to == b) {
      direct.distance = Distance::link;
      direct.links += link.count;
      direct.gbytes_per_s += link.count * link.gbytes_per_s;
    } else if (topology[link.to].kind == NodeKind::link_switch) {
      for (const Link& next : topology.links) {
        if (next.from != link.to || next.to != b) continue;
        through.distance = Distance::link;
        through.links += std::min(link.count, next.count);
        through.gbytes_per_s +=
            std::min(link.count * link.gbytes_per_s, next.count * next.gbytes_per_s);
      }
    }
  }
  return direct.distance == Distance::link ? direct : through;
}

Path path_between(const Topology& topology, NodeId a, NodeId b) {
  if (a != b)
    if (const Path path = link_path_between(topology, a, b); path.distance == Distance::link)
      return path;
  return pci_path_between(topology, a, b);
}

std::vector<std::vector<NodeId>> link_islands(const Topology& topology) {
  std::vector<NodeId> island(topology.nodes.size());
  for (NodeId id = 0; id < topology.size(); ++id) island[static_cast<std::size_t>(id)] = id;
  const auto root = [&](NodeId id) {
    while (island[static_cast<std::size_t>(id)] != id) id = island[static_cast<std::size_t>(id)];
    return id;
  };
  for (const Link& link : topology.links) {
    if (link.kind == LinkKind::network) continue;
    const NodeId a = root(link.from), b = root(link.to);
    island[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
  std::vector<std::vector<NodeId>> islands;
  std::set<NodeId> seen;
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  for (const NodeId first : gpus) {
    std::vector<NodeId> members;
    for (const NodeId each : gpus)
      if (root(each) == root(first)) members.push_back(each);
    if (seen.insert(root(first)).second && members.size() > 1) islands.push_back(members);
  }
  return islands;
}

}  // namespace coll
