// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: its questions and its promises.
#include "topology/topology.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace coll {

std::string_view name_of(NodeKind kind) {
  constexpr std::array<std::string_view, kNodeKinds> names{
      "host", "group",      "package",     "die",           "numa",     "cache",
      "core", "pu",         "host_bridge", "pci_switch",    "pci_port", "gpu",
      "nic",  "pci_device", "link_switch", "network_switch"};
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

std::vector<NodeId> Topology::all(NodeKind kind) const {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < size(); ++id)
    if ((*this)[id].kind == kind) found.push_back(id);
  if (kind == NodeKind::gpu)
    std::stable_sort(found.begin(), found.end(), [&](NodeId a, NodeId b) {
      return std::tuple(above(a, NodeKind::host), (*this)[a].index) <
             std::tuple(above(b, NodeKind::host), (*this)[b].index);
    });
  return found;
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

void Topology::connect(LinkKind kind, NodeId a, NodeId b, int count, double gbytes_per_s) {
  links.push_back({kind, a, b, count, gbytes_per_s});
  links.push_back({kind, b, a, count, gbytes_per_s});
}

namespace {

Status broken(std::string what) {
  return failed(Code::invalid_argument, "topology: " + std::move(what),
                "the file was edited or cut: write it again");
}

}  // namespace

Status check(const Topology& topology) {
  const auto real = [&](NodeId id) { return id >= 0 && id < topology.size(); };
  for (NodeId id = 0; id < topology.size(); ++id) {
    const Node& node = topology[id];
    const std::string name = "node " + std::to_string(id);
    if (node.parent < kNoNode || node.parent >= id)
      return broken(name + " has parent " + std::to_string(node.parent) + ", not one before it");
    const bool root = node.kind == NodeKind::host || node.kind == NodeKind::network_switch;
    if (!root && node.parent == kNoNode)
      return broken(name + ", a " + std::string(name_of(node.kind)) + ", belongs to no host");
    if (node.bytes < 0 || node.pci.lanes < 0) return broken(name + " has a negative size");
  }
  for (const Link& link : topology.links) {
    if (!real(link.from) || !real(link.to) || link.from == link.to)
      return broken("a link goes from node " + std::to_string(link.from) + " to " +
                    std::to_string(link.to));
    if (link.count < 1 || !(link.gbytes_per_s >= 0))
      return broken("a link from node " + std::to_string(link.from) + " has no count or bandwidth");
  }
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
