// SPDX-License-Identifier: Apache-2.0
// Hwloc's XML of all versions, objects to nodes; the format is described in hwloc's hwloc2.dtd and
// its manual.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "topology/read/hwloc_distances.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/read/settle.hpp"
#include "topology/read/xml_text.hpp"

namespace coll {
namespace {

using Xml = pugi::xml_node;

/// hwloc renamed types over the years; the empty kind means: no node of its own.
std::optional<NodeKind> kind_of(std::string_view type) {
  using enum NodeKind;
  constexpr auto kKinds = std::to_array<std::pair<std::string_view, NodeKind>>(
      {{"Machine", host},     {"System", host},    {"Group", group},    {"Package", package},
       {"Socket", package},   {"Die", die},        {"NUMANode", numa},  {"Node", numa},
       {"Cache", cache},      {"MemCache", cache}, {"Core", core},      {"PU", pu},
       {"L1Cache", cache},    {"L2Cache", cache},  {"L3Cache", cache},  {"L4Cache", cache},
       {"L5Cache", cache},    {"L1iCache", cache}, {"L2iCache", cache}, {"L3iCache", cache},
       {"PCIDev", pci_device}});
  const auto found = std::ranges::find(kKinds, type, &decltype(kKinds)::value_type::first);
  if (found == kKinds.end()) return std::nullopt;
  return found->second;
}

class HwlocReader {
 public:
  HwlocReader(std::string_view text, std::string_view name) : xml_(text, name) {
    topology_.source = name;
  }

  Result<Topology> read() {
    COLL_ASSIGN(const Xml root, xml_.parse());
    version_ = attribute_or(root, "version", 1.0);
    if (version_ >= 4)
      return xml_.fault(root, "hwloc XML version " + std::string(attribute(root, "version")),
                        "versions 1 to 3 are known: export with an older hwloc");
    for (const Xml object : root.children("object")) COLL_TRY(visit(object, kNoNode));
    if (topology_.count(NodeKind::host) == 0)
      return xml_.fault(root, "no object of type Machine in it", "is it an hwloc file?");
    for (const Xml info : root.children("info")) note(topology_.nodes[0], info);
    for (const Xml kind : root.children("cpukind")) read_kind(kind);
    finish_nodes();
    settle_devices(topology_);
    read_hwloc_distances(root, topology_, by_gp_);
    COLL_TRY(check(topology_));
    return std::move(topology_);
  }

 private:
  static void note(Node& node, const Xml& info) {
    node.info.emplace_back(attribute(info, "name"), trimmed(attribute(info, "value")));
  }

  Result<CpuSet> set_of(const Xml& object, const char* key) const {
    const std::string_view text = trimmed(attribute(object, key));
    if (text.empty()) return CpuSet{};
    const auto set = CpuSet::from_mask(text);
    if (!set)
      return xml_.fault(object, std::string(key) + "=\"" + std::string(text) + "\" is no mask",
                        "words of hexadecimal digits with commas between them");
    return *set;
  }

  Status visit(const Xml& object, NodeId parent) {
    const std::string_view type = attribute(object, "type");
    if (type == "OSDev") {
      add_os_device(object, parent);
      return {};
    }
    NodeId id = parent;
    if (type == "Bridge") {
      if (parent == kNoNode) return xml_.fault(object, "a bridge outside of a machine", "edited?");
      id = add_bridge(object, parent);
    } else if (const auto kind = kind_of(type)) {
      if ((parent == kNoNode) != (*kind == NodeKind::host))
        return xml_.fault(object, "an object of type " + std::string(type) + " at this depth",
                          "a Machine holds all others and is in none");
      Node node;
      node.kind = *kind;
      node.parent = parent;
      COLL_ASSIGN(id, add_object(object, std::move(node), type));
    } else if (parent == kNoNode) {
      return xml_.fault(object,
                        "an object of type \"" + std::string(type) + "\" outside of a machine",
                        "a Machine holds all others");
    }
    if (id != parent)
      if (const auto gp = number<std::uint64_t>(attribute(object, "gp_index"))) by_gp_[*gp] = id;
    for (const Xml child : object.children("distances"))
      old_distances_.emplace_back(child);  // version 1
    for (const Xml child : object.children("object")) COLL_TRY(visit(child, id));
    return {};
  }

  Result<NodeId> add_object(const Xml& object, Node node, std::string_view type) {
    node.index = attribute_or(object, "os_index", -1);
    COLL_ASSIGN(node.cpus, set_of(object, "cpuset"));
    COLL_ASSIGN(const CpuSet near, set_of(object, "nodeset"));
    node.subtype = attribute(object, "subtype");
    for (const Xml info : object.children("info")) {
      note(node, info);
      if (attribute(info, "name") == "Type" && node.subtype.empty())
        node.subtype = attribute(info, "value");
    }
    switch (node.kind) {
      case NodeKind::host: {
        COLL_ASSIGN(const CpuSet allowed, set_of(object, "allowed_cpuset"));
        if (!allowed.empty()) node.cpus &= allowed;
        break;
      }
      case NodeKind::numa:
        node.bytes =
            std::max<std::int64_t>(0, attribute_or<std::int64_t>(object, "local_memory", 0));
        // Version 1 hangs a second memory (MCDRAM) below a group, with no processors of its own.
        // Memory of GPUs hangs below the machine: it is near to no processor.
        if (version_ < 2 && node.cpus.empty() && topology_[node.parent].kind != NodeKind::host)
          node.cpus = topology_[node.parent].cpus;
        break;
      case NodeKind::cache:
        node.bytes = std::max<std::int64_t>(0, attribute_or<std::int64_t>(object, "cache_size", 0));
        node.level = attribute_or(object, "depth", 0);
        node.subtype = attribute(object, "cache_type") == "2"   ? "i"
                       : attribute(object, "cache_type") == "1" ? "d"
                                                                : "";
        node.index = -1;
        if (type == "MemCache") node.subtype = "memory-side";
        break;
      case NodeKind::pci_device:
        read_pci(object, node);
        break;
      default:
        break;
    }
    const NodeId id = topology_.add(std::move(node));
    near_[id] = near;
    return id;
  }

  void read_pci(const Xml& object, Node& node) {
    const std::string_view bus = attribute(object, "pci_busid");
    if (const auto normal = bus_number(bus))
      node.pci.bus = *normal;
    else
      topology_.warn("PCI device \"" + std::string(bus) + "\" has no bus number: kept without");
    // "0302 [10de:1db1] [10de:1212] a1"
    const auto words = split(attribute(object, "pci_type"), " []:");
    if (words.size() >= 3) {
      node.pci.class_code = hex16(words[0]);
      node.pci.vendor = hex16(words[1]);
      node.pci.device = hex16(words[2]);
    }
    node.pci.gbytes_per_s = std::max(0.0, attribute_or(object, "pci_link_speed", 0.0));
    node.index = -1;
    for (const auto& [key, value] : node.info)
      if (key == "PCIDevice") node.model = value;
  }

  NodeId add_bridge(const Xml& object, NodeId parent) {
    Node node;
    node.parent = parent;
    const bool root = attribute(object, "bridge_type").starts_with("0");
    node.kind = root ? NodeKind::host_bridge : NodeKind::pci_port;
    if (!root) read_pci(object, node);
    return topology_.add(std::move(node));
  }

  /// A name that the operating system or a runtime gives to the PCI function above it.
  void add_os_device(const Xml& object, NodeId parent) {
    if (parent == kNoNode || topology_[parent].kind != NodeKind::pci_device) return;
    Node& node = topology_.nodes[static_cast<std::size_t>(parent)];
    const std::string name(attribute(object, "name"));
    node.aliases.push_back(name);
    if (const auto gp = number<std::uint64_t>(attribute(object, "gp_index"))) by_gp_[*gp] = parent;
    for (const Xml info : object.children("info")) {
      note(node, info);
      const std::string_view key = attribute(info, "name"), value = attribute(info, "value");
      // Runtimes differ in their words, and one cuts them: the first one is kept.
      if (key == "GPUModel" && !named_.contains(parent)) {
        node.model = trimmed(value);
        named_.insert(parent);
      }
      // Hive 0 is what drivers say of GPUs that are in none.
      if (key == "XGMIHiveID" && value.find_first_not_of("0x") != value.npos) node.island = value;
    }
    const std::string_view type = attribute(object, "osdev_type");
    if (type == "2") networks_[parent].push_back(name);
    if (type == "3") rdma_[parent].push_back(name);
  }

  void read_kind(const Xml& element) {
    const auto cpus = CpuSet::from_mask(trimmed(attribute(element, "cpuset")));
    if (!cpus) return;
    CpuKind kind{0, {}, *cpus};
    for (const Xml info : element.children("info")) {
      if (!kind.name.empty()) kind.name += ", ";
      kind.name +=
          std::string(attribute(info, "name")) + " " + std::string(attribute(info, "value"));
    }
    topology_.cpu_kinds.push_back(std::move(kind));
  }

  void finish_nodes() {
    if (!old_distances_.empty()) read_hwloc1_distances(old_distances_, topology_);
    for (NodeId id = 0; id < topology_.size(); ++id) {
      Node& node = topology_.nodes[static_cast<std::size_t>(id)];
      if (node.kind != NodeKind::pci_device) continue;
      std::sort(node.aliases.begin(), node.aliases.end());
      const bool rdma = rdma_.contains(id);
      const auto& names = rdma ? rdma_[id] : networks_[id];
      for (const std::string& name : names) node.ports.push_back({name, rdma ? 1 : 0, -1, 0});
      NodeId above = node.parent;
      while (above != kNoNode && !near_.contains(above)) above = topology_[above].parent;
      if (above != kNoNode) node.numa = near_[above].numbers();
    }
    // Without nodesets (old versions, one memory) all memory of the host is near.
    for (Node& node : topology_.nodes)
      if (node.kind == NodeKind::pci_device && node.numa.empty())
        for (const NodeId numa : topology_.all(NodeKind::numa))
          node.numa.push_back(topology_[numa].index);
  }

  XmlText xml_;
  Topology topology_;
  double version_ = 1;
  GpIndex by_gp_;
  std::map<NodeId, CpuSet> near_;
  std::map<NodeId, std::vector<std::string>> networks_, rdma_;
  std::set<NodeId> named_;  ///< devices that a runtime gave a model
  std::vector<Xml> old_distances_;
};

}  // namespace

Result<Topology> read_hwloc_xml(std::string_view text, std::string_view name) {
  return HwlocReader(text, name).read();
}

}  // namespace coll
