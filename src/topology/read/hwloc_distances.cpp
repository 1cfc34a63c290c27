// SPDX-License-Identifier: Apache-2.0
// The matrices in hwloc's XML.
#include "topology/read/hwloc_distances.hpp"

#include <algorithm>
#include <cmath>

#include "topology/read/link_claims.hpp"

namespace coll {
namespace {

using Xml = pugi::xml_node;

std::vector<std::string> words_of(const Xml& element, const char* child) {
  std::vector<std::string> words;
  for (const Xml each : element.children(child))
    for (const std::string_view word : split(each.child_value(), " \t\r\n"))
      words.emplace_back(word);
  return words;
}

/// The values of a square matrix, or nothing if it is none.
std::vector<double> matrix_of(const Xml& element, std::size_t width, Topology& topology) {
  std::vector<double> values;
  for (const std::string& word : words_of(element, "u64values"))
    values.push_back(number<double>(word).value_or(0));
  if (values.size() == width * width && width > 0) return values;
  topology.warn("the matrix \"" + std::string(attribute(element, "name")) + "\" has " +
                std::to_string(values.size()) + " values for " + std::to_string(width) +
                " objects: ignored");
  return {};
}

void add_latency(const Xml& element, Topology& topology) {
  NumaLatency table;
  const std::vector<std::string> words = words_of(element, "indexes");
  for (const std::string& word : words)
    table.nodes.push_back(number<std::int32_t>(word).value_or(-1));
  table.values = matrix_of(element, table.nodes.size(), topology);
  if (!table.values.empty()) topology.latencies.push_back(std::move(table));
}

/// hwloc sums parallel NVLinks. One link moves 25 GB/s, of the first generation 20 (NVIDIA's data
/// sheets of P100 and of V100, A100, H100).
LinkClaims::Claim nvlinks(double megabytes_per_s) {
  for (const int speed : {25000, 20000}) {
    const int count = static_cast<int>(std::lround(megabytes_per_s / speed));
    if (count > 0 && count * speed == static_cast<int>(megabytes_per_s))
      return {count, speed / 1000.0, LinkKind::nvlink};
  }
  return {1, megabytes_per_s / 1000, LinkKind::nvlink};
}

/// A package or a part of it, or a bridge that a processor shows on the PCI bus.
bool leads_to_processor(const Node& node) {
  const bool device =
      node.kind == NodeKind::gpu || node.kind == NodeKind::nic || node.kind == NodeKind::pci_device;
  const bool port = node.kind == NodeKind::pci_port || node.kind == NodeKind::pci_switch;
  if (!device && !port) return true;
  return node.pci.class_code >> 8 == 0x06 && node.pci.vendor != kNvidiaVendor;
}

NodeId fabric_of(Topology& topology) {
  for (NodeId id = 0; id < topology.size(); ++id)
    if (topology[id].kind == NodeKind::link_switch) return id;
  Node fabric;
  fabric.kind = NodeKind::link_switch;
  fabric.parent = 0;
  fabric.name = "NVSwitch";
  return topology.add(std::move(fabric));
}

void add_links(const Xml& element, LinkKind kind, Topology& topology, const GpIndex& by_gp) {
  std::vector<NodeId> ends;
  for (const std::string& word : words_of(element, "indexes")) {
    const auto gp = number<std::uint64_t>(std::string_view(word).substr(word.rfind(':') + 1));
    const auto found = gp ? by_gp.find(*gp) : by_gp.end();
    ends.push_back(found == by_gp.end() ? kNoNode : found->second);
  }
  const std::vector<double> values = matrix_of(element, ends.size(), topology);
  if (values.empty()) return;
  LinkClaims claims;
  std::map<NodeId, std::string> packages;
  std::vector<NodeId> switches;
  const std::size_t width = ends.size();
  for (std::size_t row = 0; row < width; ++row)
    for (std::size_t column = 0; column < width; ++column) {
      const NodeId from = ends[row];
      NodeId to = ends[column];
      const double value = values[row * width + column];
      if (row == column || value <= 0 || value > 1e9 || from == kNoNode || to == kNoNode) continue;
      if (topology[from].kind == NodeKind::gpu) {
        const std::uint16_t target = topology[to].pci.class_code;
        if (leads_to_processor(topology[to])) {  // POWER: the link goes into the package
          while (to != 0 && topology[to].kind != NodeKind::package) to = topology[to].parent;
        } else if (topology[to].kind != NodeKind::gpu) {
          if (std::find(switches.begin(), switches.end(), to) == switches.end()) {
            switches.push_back(to);
            if (target == 0)
              topology.warn(
                  label(topology, to) +
                  " does not say what it is, but GPUs have links to it: taken as an NVSwitch");
          }
          to = fabric_of(topology);
        }
        packages[from] = topology[from].info_of("AMDSerial");
        const auto links = kind == LinkKind::nvlink
                               ? nvlinks(value)
                               : LinkClaims::Claim{1, value / 1000, LinkKind::xgmi};
        claims.claim(from, to, kind, links.count, links.gbytes_per_s);
      }
    }
  std::erase_if(packages, [](const auto& each) { return each.second.empty(); });
  if (kind == LinkKind::xgmi && claims.drop_if_uniform_across_packages(topology, packages)) return;
  claims.settle(topology);
  for (Node& node : topology.nodes)
    if (node.kind == NodeKind::link_switch && !switches.empty())
      node.info.emplace_back("switches", std::to_string(switches.size()));
}

}  // namespace

void read_hwloc_distances(const Xml& root, Topology& topology, const GpIndex& by_gp) {
  for (const Xml element : root.children()) {
    const std::string_view tag = element.name(), name = attribute(element, "name");
    if (!tag.starts_with("distances2")) continue;
    constexpr unsigned kLatency = 1U << 2;
    const bool numa = attribute(element, "type") == "NUMANode" &&
                      (attribute_or(element, "kind", 0U) & kLatency) != 0;
    if (name == "NUMALatency" || (name.empty() && numa)) add_latency(element, topology);
    if (name == "NVLinkBandwidth") add_links(element, LinkKind::nvlink, topology, by_gp);
    if (name == "XGMIBandwidth") add_links(element, LinkKind::xgmi, topology, by_gp);
  }
}

void read_hwloc1_distances(const std::vector<Xml>& elements, Topology& topology) {
  const std::vector<NodeId> nodes = topology.all(NodeKind::numa);
  for (const Xml& element : elements) {
    if (attribute_or(element, "nbobjs", std::size_t{0}) != nodes.size() || nodes.size() < 2)
      continue;
    NumaLatency table;
    const double base = attribute_or(element, "latency_base", 1.0);
    for (const NodeId node : nodes) table.nodes.push_back(topology[node].index);
    for (const Xml latency : element.children("latency"))
      table.values.push_back(base * attribute_or(latency, "value", 0.0));
    if (table.values.size() == nodes.size() * nodes.size())
      topology.latencies.push_back(std::move(table));
    else
      topology.warn("a table of latencies is not square: ignored");
  }
}

}  // namespace coll
