// SPDX-License-Identifier: Apache-2.0
// Distances and bandwidths between parts of a machine.
#include "topology/topology_path.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace coll {
namespace {

bool on_pci(NodeKind kind) {
  return kind == NodeKind::pci_switch || kind == NodeKind::pci_port ||
         kind == NodeKind::host_bridge;
}

/// From a device up to the host.
std::vector<NodeId> chain(const Topology& topology, NodeId id) {
  std::vector<NodeId> nodes{id};
  while (topology[id].kind != NodeKind::host && topology[id].parent != kNoNode)
    nodes.push_back(id = topology[id].parent);
  return nodes;
}

/// Levels of switches strictly between a device and `top`, in ports: a whole switch is two.
int levels_below(const Topology& topology, const std::vector<NodeId>& nodes, NodeId top) {
  int levels = 0;
  for (std::size_t at = 1; at < nodes.size() && nodes[at] != top; ++at)
    levels += topology[nodes[at]].kind == NodeKind::pci_switch ? 2 : 1;
  return levels;
}

std::vector<std::int32_t> numa_of(const Topology& topology, NodeId id) {
  return topology[id].kind == NodeKind::numa ? std::vector{topology[id].index} : topology[id].numa;
}

/// The distance of two parts of a host that meet above all host bridges.
Distance across_bridges(const Topology& topology, NodeId a, NodeId b, NodeId host) {
  const auto near_a = numa_of(topology, a), near_b = numa_of(topology, b);
  const bool unknown = near_a.empty() || near_b.empty();
  if (unknown) {
    return topology.parts(host, NodeKind::numa).size() > 1 ? Distance::sys : Distance::node;
  }
  const bool shared = std::any_of(near_a.begin(), near_a.end(), [&](std::int32_t each) {
    return std::find(near_b.begin(), near_b.end(), each) != near_b.end();
  });
  return shared ? Distance::node : Distance::sys;
}

}  // namespace

PciWay pci_way(const Topology& topology, NodeId a, NodeId b) {
  PciWay way{chain(topology, a), chain(topology, b)};
  while (!way.up.empty() && !way.down.empty() && way.up.back() == way.down.back()) {
    way.up.pop_back();
    way.down.pop_back();
  }
  std::reverse(way.down.begin(), way.down.end());
  return way;
}

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
  if (const Distance told = topology.told_of(a, b); told != Distance::unknown) path.distance = told;
  return path;
}

Path link_path_between(const Topology& topology, NodeId a, NodeId b) {
  Path direct, through;
  const std::span<const Link> out = topology.links_from(a);  // in order of `to`
  auto link = std::lower_bound(out.begin(), out.end(), b,
                               [](const Link& each, NodeId to) { return each.to < to; });
  for (; link != out.end() && link->to == b; ++link) {
    if (link->kind == LinkKind::network) continue;
    direct.distance = Distance::link;
    direct.links += link->count;
    direct.gbytes_per_s += link->count * link->gbytes_per_s;
  }
  if (direct.distance == Distance::link) return direct;
  for (const Link& up : out) {
    if (topology[up.to].kind != NodeKind::link_switch) continue;
    for (const Link& next : topology.links_from(b)) {  // both ways alike; a switch has more
      if (next.to != up.to) continue;
      through.distance = Distance::link;
      through.links += std::min(up.count, next.count);
      through.gbytes_per_s += std::min(up.count * up.gbytes_per_s, next.count * next.gbytes_per_s);
    }
  }
  return through;
}

namespace {

constexpr double kWide = std::numeric_limits<double>::infinity();  ///< of what is not known

/// Switches that were reached, and what fits through on the way there.
using Reached = std::map<NodeId, double>;

/// One hop on from all of `front`; `only_up`: to switches of a higher level.
Reached one_hop(const Topology& topology, const Reached& front, bool only_up, NodeId end) {
  Reached next;
  for (const auto& [from, width] : front)
    for (const Link& link : topology.links_from(from)) {
      const Node& there = topology[link.to];
      const bool up = there.level > topology[from].level;
      const bool is_switch = there.kind == NodeKind::network_switch;
      if (link.kind != LinkKind::network) continue;
      if (only_up ? !is_switch || !up : !is_switch && link.to != end) continue;
      const double part = link.gbytes_per_s > 0 ? link.count * link.gbytes_per_s : kWide;
      double& widest = next[link.to];
      widest = std::max(widest, std::min(width, part));
    }
  return next;
}

/// Up from both ends until they meet; 0 if they do not.
double meet_above(const Topology& topology, NodeId a, NodeId b) {
  Reached from_a{{a, kWide}}, from_b{{b, kWide}};
  while (!from_a.empty() && !from_b.empty()) {
    from_a = one_hop(topology, from_a, true, kNoNode);
    from_b = one_hop(topology, from_b, true, kNoNode);
    double widest = 0;
    for (const auto& [id, width] : from_a)
      if (const auto other = from_b.find(id); other != from_b.end())
        widest = std::max(widest, std::min(width, other->second));
    if (widest > 0) return widest;
  }
  return 0;
}

/// Breadth first, for networks without levels: the widest of the ways with the fewest hops.
double any_way(const Topology& topology, NodeId a, NodeId b) {
  Reached reached{{a, kWide}}, front = reached;
  while (!front.empty()) {
    front = one_hop(topology, front, false, b);
    if (const auto found = front.find(b); found != front.end()) return found->second;
    std::erase_if(front, [&](const auto& each) { return reached.contains(each.first); });
    reached.insert(front.begin(), front.end());
  }
  return 0;
}

}  // namespace

double network_between(const Topology& topology, NodeId a, NodeId b) {
  double width = meet_above(topology, a, b);
  if (width == 0) width = any_way(topology, a, b);
  return width == kWide ? 0 : width;
}

NodeId nearest_nic(const Topology& topology, NodeId id) {
  if (topology[id].kind == NodeKind::nic) return id;
  NodeId nearest = kNoNode;
  Path best;
  for (const NodeId nic : topology.parts(topology.above(id, NodeKind::host), NodeKind::nic)) {
    const Path path = pci_path_between(topology, id, nic);
    const auto rank = [&](const Path& way, NodeId at) {
      return std::tuple(way.distance, -port_gbytes_per_s(topology[at]));
    };
    if (nearest == kNoNode || rank(path, nic) < rank(best, nearest)) {
      nearest = nic;
      best = path;
    }
  }
  return nearest;
}

double port_gbytes_per_s(const Node& nic) {
  double sum = 0;
  for (const Port& port : nic.ports) sum += port.gbits_per_s / 8;
  return sum;
}

Path path_between(const Topology& topology, NodeId a, NodeId b) {
  if (a == b) return pci_path_between(topology, a, b);
  if (const Path path = link_path_between(topology, a, b); path.distance == Distance::link)
    return path;
  const NodeId host_a = topology.above(a, NodeKind::host),
               host_b = topology.above(b, NodeKind::host);
  if (host_a == host_b || host_a == kNoNode || host_b == kNoNode)
    return pci_path_between(topology, a, b);
  Path path{Distance::net, 0, 0};
  const NodeId out = nearest_nic(topology, a), in = nearest_nic(topology, b);
  if (out == kNoNode || in == kNoNode) return path;
  narrow(path.gbytes_per_s, pci_path_between(topology, a, out).gbytes_per_s);
  narrow(path.gbytes_per_s, port_gbytes_per_s(topology[out]));
  narrow(path.gbytes_per_s, network_between(topology, out, in));
  narrow(path.gbytes_per_s, port_gbytes_per_s(topology[in]));
  narrow(path.gbytes_per_s, pci_path_between(topology, in, b).gbytes_per_s);
  return path;
}

std::vector<std::vector<NodeId>> link_islands(const Topology& topology) {
  std::vector<NodeId> island(topology.nodes.size());
  for (NodeId id = 0; id < topology.size(); ++id) island[static_cast<std::size_t>(id)] = id;
  const auto root = [&](NodeId id) {
    while (island[static_cast<std::size_t>(id)] != id) {
      NodeId& up = island[static_cast<std::size_t>(id)];
      id = up = island[static_cast<std::size_t>(up)];
    }
    return id;
  };
  const auto passes = [&](NodeId id) {  // a processor that GPUs have links to does not
    return topology[id].kind == NodeKind::gpu || topology[id].kind == NodeKind::link_switch;
  };
  for (const Link& link : topology.links) {
    if (link.kind == LinkKind::network || !passes(link.from) || !passes(link.to)) continue;
    const NodeId a = root(link.from), b = root(link.to);
    island[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
  std::map<NodeId, std::vector<NodeId>> members;
  std::vector<std::vector<NodeId>> islands;
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  for (const NodeId gpu : gpus) members[root(gpu)].push_back(gpu);
  for (const NodeId gpu : gpus)
    if (const auto& all = members[root(gpu)]; all.size() > 1 && all[0] == gpu)
      islands.push_back(all);
  return islands;
}

}  // namespace coll
