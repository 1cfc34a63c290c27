// SPDX-License-Identifier: Apache-2.0
// Finds parts of a topology, and checks that it is whole.
#include "topology/topology.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace coll {

std::string_view name_of(NodeKind kind) {
  constexpr std::array<std::string_view, kNodeKinds> names{
      "rack",  "host", "group",      "package",     "die",           "numa",
      "cache", "core", "pu",         "host_bridge", "pci_switch",    "pci_port",
      "gpu",   "nic",  "pci_device", "link_switch", "network_switch"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(LinkKind kind) {
  constexpr std::array<std::string_view, kLinkKinds> names{"nvlink", "xgmi", "network"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Distance distance) {
  constexpr std::array<std::string_view, kDistances> names{"X",    "NV",  "PIX", "PXB",    "PHB",
                                                           "NODE", "SYS", "NET", "unknown"};
  return names[static_cast<std::size_t>(distance)];
}

std::string_view Node::info_of(std::string_view key) const {
  for (const auto& [each, value] : info)
    if (each == key) return value;
  return {};
}

namespace {

/// Ends the parts of the host before it.
bool ends_host(NodeKind kind) {
  return kind == NodeKind::host || kind == NodeKind::rack || kind == NodeKind::network_switch;
}

constexpr auto by_ends = [](const Link& a, const Link& b) {
  return std::tie(a.from, a.to) < std::tie(b.from, b.to);
};
constexpr auto by_pair = [](const ToldDistance& a, const ToldDistance& b) {
  return std::tie(a.a, a.b) < std::tie(b.a, b.b);
};

}  // namespace

std::vector<NodeId> Topology::all(NodeKind kind) const {
  std::vector<NodeId> found;
  std::size_t of_host = 0;  // from here on they are of the same host
  const auto order = [&] {
    if (kind == NodeKind::gpu)
      std::stable_sort(found.begin() + static_cast<std::ptrdiff_t>(of_host), found.end(),
                       [&](NodeId a, NodeId b) { return (*this)[a].index < (*this)[b].index; });
    of_host = found.size();
  };
  for (NodeId id = 0; id < size(); ++id) {
    const NodeKind each = (*this)[id].kind;
    if (ends_host(each)) order();
    if (each == kind) found.push_back(id);
  }
  order();
  return found;
}

std::vector<NodeId> Topology::parts(NodeId host, NodeKind kind) const {
  std::vector<NodeId> found;
  for (NodeId id = host + 1; id < size() && !ends_host((*this)[id].kind); ++id)
    if ((*this)[id].kind == kind) found.push_back(id);
  if (kind == NodeKind::gpu)
    std::stable_sort(found.begin(), found.end(),
                     [&](NodeId a, NodeId b) { return (*this)[a].index < (*this)[b].index; });
  return found;
}

std::span<const Link> Topology::links_from(NodeId id) const {
  const auto first =
      std::lower_bound(links.begin(), links.end(), id,
                       [](const Link& link, NodeId from) { return link.from < from; });
  const auto end = std::upper_bound(first, links.end(), id,
                                    [](NodeId from, const Link& link) { return from < link.from; });
  return {first, end};
}

Distance Topology::told_of(NodeId a, NodeId b) const {
  const ToldDistance wanted{std::min(a, b), std::max(a, b), Distance::unknown};
  const auto found = std::lower_bound(told.begin(), told.end(), wanted, by_pair);
  return found != told.end() && found->a == wanted.a && found->b == wanted.b ? found->distance
                                                                             : Distance::unknown;
}

int Topology::count(NodeKind kind) const {
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(),
                                        [&](const Node& node) { return node.kind == kind; }));
}

NodeId Topology::above(NodeId id, NodeKind kind) const {
  while (id != kNoNode && (*this)[id].kind != kind) id = (*this)[id].parent;
  return id;
}

int Topology::usable_pus() const {
  int sum = 0;
  for (const Node& node : nodes)
    if (node.kind == NodeKind::host) sum += node.cpus.count();
  return sum;
}

NodeId Topology::add(Node node) {
  nodes.push_back(std::move(node));
  return size() - 1;
}

void Topology::connect_all(std::span<const Link> one_way) {
  for (const Link& link : one_way) {
    links.push_back(link);
    links.push_back({link.kind, link.to, link.from, link.count, link.gbytes_per_s});
  }
  std::stable_sort(links.begin(), links.end(), by_ends);
}

void Topology::tell_all(std::span<const ToldDistance> distances) {
  for (const auto& [a, b, distance] : distances)
    told.push_back({std::min(a, b), std::max(a, b), distance});
  std::stable_sort(told.begin(), told.end(), by_pair);
}

namespace {

Status broken(std::string what) {
  return failed(Code::invalid_argument, "topology: " + std::move(what),
                "the file was edited or cut: write it again");
}

}  // namespace

namespace {

/// Racks, hosts and network switches stand by themselves, hosts and switches also in a rack; all
/// else is a part of the host before it.
Status check_place(const Topology& topology, NodeId id, NodeId host, const std::string& name) {
  const Node& node = topology[id];
  const std::string what = name + ", a " + std::string(name_of(node.kind)) + ", ";
  if (ends_host(node.kind)) {
    const bool in_rack = node.parent != kNoNode && node.kind != NodeKind::rack &&
                         topology[node.parent].kind == NodeKind::rack;
    return node.parent == kNoNode || in_rack
               ? Status()
               : broken(what + "is part of node " + std::to_string(node.parent) +
                        ", which is no rack");
  }
  if (node.parent == kNoNode) return broken(what + "belongs to no host");
  if (host == kNoNode || node.parent < host)
    return broken(what + "does not stand among the parts of its host");
  return {};
}

}  // namespace

Status check(const Topology& topology) {
  NodeId host = kNoNode;
  const auto real = [&](NodeId id) { return id >= 0 && id < topology.size(); };
  for (NodeId id = 0; id < topology.size(); ++id) {
    const Node& node = topology[id];
    const std::string name = "node " + std::to_string(id);
    if (node.parent < kNoNode || node.parent >= id)
      return broken(name + " has parent " + std::to_string(node.parent) + ", not one before it");
    COLL_TRY(check_place(topology, id, host, name));
    if (node.kind == NodeKind::host) host = id;
    if (node.bytes < 0 || node.pci.lanes < 0) return broken(name + " has a negative size");
  }
  for (const Link& link : topology.links) {
    if (!real(link.from) || !real(link.to) || link.from == link.to)
      return broken("a link goes from node " + std::to_string(link.from) + " to " +
                    std::to_string(link.to));
    if (link.count < 1 || link.count > kMostParallel || !(link.gbytes_per_s >= 0))
      return broken("a link from node " + std::to_string(link.from) + " has no count or bandwidth");
  }
  if (!std::is_sorted(topology.links.begin(), topology.links.end(), by_ends) ||
      !std::is_sorted(topology.told.begin(), topology.told.end(), by_pair))
    return broken("links or told distances are not in order");
  for (const ToldDistance& told : topology.told)
    if (!real(told.a) || !real(told.b) || told.a >= told.b)
      return broken("a distance names nodes that are none");
  for (const NumaLatency& table : topology.latencies)
    if (!real(table.host) || table.values.size() != table.nodes.size() * table.nodes.size())
      return broken("a table of latencies is not square");
  for (const CpuKind& kind : topology.cpu_kinds)
    if (!real(kind.host)) return broken("a kind of core belongs to no host");
  return {};
}

std::string label(const Topology& topology, NodeId id) {
  const Node& node = topology[id];
  if (!node.name.empty()) return node.name;
  if (node.kind == NodeKind::cache) return "L" + std::to_string(node.level) + node.subtype;
  std::string text(name_of(node.kind));
  if (node.index >= 0) return text + " " + std::to_string(node.index);
  return node.pci.bus.empty() ? text : text + " " + node.pci.bus;
}

}  // namespace coll
