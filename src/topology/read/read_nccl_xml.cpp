// SPDX-License-Identifier: Apache-2.0
// The XML of NCCL and RCCL: system, cpu, pci, gpu, nic, net, nvlink and xgmi, as their
// src/graph/xml.cc names them.
#include <algorithm>
#include <map>

#include "topology/read/link_claims.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/read/settle.hpp"
#include "topology/read/xml_text.hpp"

namespace coll {
namespace {

using Xml = pugi::xml_node;

/// What one link moves in one direction, 1e9 bytes/s. NVLink: NVIDIA's data sheets by compute
/// capability; XGMI: AMD's (Instinct MI50, MI100, MI250X, MI300X). 0: not known.
double link_speed(const Xml& gpu, LinkKind kind) {
  if (kind == LinkKind::nvlink) {
    const int capability = attribute_or(gpu, "sm", 0);
    if (capability >= 100) return 50;
    if (capability == 86) return 14.0625;
    return capability >= 70 ? 25 : capability >= 60 ? 20 : 0;
  }
  std::string_view text = attribute(gpu, "gcn");
  if (text.starts_with("gfx")) text.remove_prefix(3);
  if (text.starts_with("906") || text.starts_with("908")) return 46;
  if (text.starts_with("90a") || text.starts_with("910")) return 50;
  return text.starts_with("94") || text.starts_with("95") ? 64 : 0;
}

class NcclReader {
 public:
  NcclReader(std::string_view text, std::string_view name) : xml_(text, name) {
    topology_.source = name;
  }

  Result<Topology> read() {
    COLL_ASSIGN(const Xml root, xml_.parse());
    for (const Xml cpu : root.children("cpu")) COLL_TRY(add_cpu(cpu));
    if (topology_.nodes.empty())
      return xml_.fault(root, "no cpu in the system", "NCCL writes one per NUMA node");
    if (unclassified_ > 0)
      topology_.warn(
          std::to_string(unclassified_) +
          " PCI functions without a class: kept as other devices; what they are is found "
          "on the machine");
    settle_devices(topology_);
    LinkClaims claims;
    for (const auto& [gpu, element] : gpus_) COLL_TRY(add_links(gpu, element, claims));
    claims.settle(topology_);
    COLL_TRY(check(topology_));
    return std::move(topology_);
  }

 private:
  NodeId host_of(const Xml& cpu) {
    const std::string key(attribute(cpu, "host_hash"));
    if (const auto found = hosts_.find(key); found != hosts_.end()) return found->second;
    Node host;
    host.index = static_cast<std::int32_t>(hosts_.size());
    for (const char* each : {"arch", "vendor", "familyid", "modelid"})
      if (const auto value = attribute(cpu, each); !value.empty())
        host.info.emplace_back(each, value);
    return hosts_[key] = topology_.add(std::move(host));
  }

  Status add_cpu(const Xml& cpu) {
    const NodeId host = host_of(cpu);
    Node numa;
    numa.kind = NodeKind::numa;
    numa.parent = host;
    numa.index = attribute_or(cpu, "numaid", -1);
    if (numa.index < 0) {
      topology_.warn("a cpu has no numaid: NUMA node 0 assumed");
      numa.index = 0;
    }
    if (const std::string_view mask = attribute(cpu, "affinity"); !mask.empty()) {
      const auto set = CpuSet::from_mask(mask);
      if (!set)
        return xml_.fault(cpu, "affinity=\"" + std::string(mask) + "\" is no mask",
                          "words of hexadecimal digits with commas between them");
      numa.cpus = *set;
    }
    topology_.nodes[static_cast<std::size_t>(host)].cpus |= numa.cpus;
    Node bridge;
    bridge.kind = NodeKind::host_bridge;
    const std::vector<std::int32_t> near{numa.index};
    bridge.parent = topology_.add(std::move(numa));
    return add_devices(cpu, topology_.add(std::move(bridge)), near);
  }

  Status add_devices(const Xml& parent, NodeId parent_id, const std::vector<std::int32_t>& near) {
    for (const Xml element : parent.children()) {
      const std::string_view tag = element.name();
      if (tag == "pci") {
        COLL_TRY(add_pci(element, parent_id, near));
      } else if (tag == "nic" && parent.name() == std::string_view("cpu")) {
        Node nic;
        nic.kind = NodeKind::nic;
        nic.parent = parent_id;
        nic.numa = near;
        add_ports(element, nic);
        topology_.add(std::move(nic));
      }
    }
    return {};
  }

  Status add_pci(const Xml& element, NodeId parent, const std::vector<std::int32_t>& near) {
    Node node;
    node.parent = parent;
    node.kind = NodeKind::pci_device;
    const std::string_view bus = attribute(element, "busid");
    const auto normal = bus_number(bus);
    if (!normal)
      return xml_.fault(element, "busid=\"" + std::string(bus) + "\" is no bus number",
                        "DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal digits");
    node.pci.bus = *normal;
    node.pci.vendor = hex16(attribute(element, "vendor"));
    node.pci.device = hex16(attribute(element, "device"));
    std::string_view class_text = attribute(element, "class");
    if (class_text.starts_with("0x")) class_text.remove_prefix(2);
    node.pci.class_code = hex16(class_text.substr(0, 4));
    const auto speed = split(attribute(element, "link_speed"), " ");
    node.pci.transfers_per_s =
        speed.empty() ? 0 : std::max(0.0, number<double>(speed.front()).value_or(0));
    node.pci.lanes = std::clamp(attribute_or(element, "link_width", 0), 0, 32);
    node.pci.gbytes_per_s = pci_gbytes_per_s(node.pci.transfers_per_s, node.pci.lanes);
    const Xml gpu = element.child("gpu"), nic = element.child("nic");
    if (gpu) {
      node.kind = NodeKind::gpu;
      node.index = attribute_or(gpu, "dev", -1);
      for (const auto& each : gpu.attributes()) node.info.emplace_back(each.name(), each.value());
    } else if (nic) {
      node.kind = NodeKind::nic;
    } else if (node.pci.class_code >> 8 == 0x06 || element.child("pci")) {
      node.kind = NodeKind::pci_switch;
    } else if (node.pci.class_code >> 8 == 0x03) {
      node.kind = NodeKind::gpu;  // these files list no displays
    } else if (node.pci.class_code == 0) {
      ++unclassified_;
    }
    if (node.kind != NodeKind::pci_switch) node.numa = near;
    for (const Xml each : element.children("nic")) add_ports(each, node);
    const NodeId id = topology_.add(std::move(node));
    if (gpu) gpus_.emplace_back(id, gpu);
    by_bus_.emplace(*normal, id);
    return add_devices(element, id, near);
  }

  void add_ports(const Xml& nic, Node& node) {
    for (const Xml net : nic.children("net")) {
      Port port{std::string(attribute(net, "name")), attribute_or(net, "port", 0),
                attribute_or(net, "dev", -1), 0};
      double speed = std::max(0.0, attribute_or(net, "speed", 0.0)) / 1000;
      if (speed > kFastestPort) {
        topology_.warn("port " + port.name + " claims " +
                       std::to_string(speed / 1000).substr(0, 6) +
                       " Tb/s: taken as kb/s instead of Mb/s");
        speed /= 1000;
      }
      port.gbits_per_s = speed > kFastestPort ? 0 : speed;
      if (node.name.empty()) node.name = port.name;
      node.ports.push_back(std::move(port));
    }
  }

  NodeId fabric_of(NodeId host) {
    if (const auto found = fabrics_.find(host); found != fabrics_.end()) return found->second;
    Node fabric;
    fabric.kind = NodeKind::link_switch;
    fabric.parent = host;
    fabric.name = "NVSwitch";
    return fabrics_[host] = topology_.add(std::move(fabric));
  }

  Status add_links(NodeId gpu, const Xml& element, LinkClaims& claims) {
    for (const Xml link : element.children()) {
      const std::string_view tag = link.name();
      if (tag != "nvlink" && tag != "xgmi") continue;
      const LinkKind kind = tag == "xgmi" ? LinkKind::xgmi : LinkKind::nvlink;
      const auto target = bus_number(attribute(link, "target"));
      const int count = attribute_or(link, "count", 1);
      if (count < 1 || count > 1024)
        return xml_.fault(link,
                          "a link with count=\"" + std::string(attribute(link, "count")) + '"',
                          "between 1 and 1024");
      std::string_view target_class = attribute(link, "tclass");
      const auto found = target ? by_bus_.find(*target) : by_bus_.end();
      NodeId to = kNoNode;
      if (found != by_bus_.end() && topology_[found->second].kind == NodeKind::gpu)
        to = found->second;
      else if (target_class == "0x068000")
        to = fabric_of(topology_.above(gpu, NodeKind::host));
      else if (target_class.starts_with("0x0680"))  // a bridge of the processor (POWER)
        to = topology_.above(gpu, NodeKind::numa);
      if (to == kNoNode) {
        topology_.warn(label(topology_, gpu) + " has a link to " +
                       std::string(attribute(link, "target")) + ", which is not there: ignored");
        continue;
      }
      claims.claim(gpu, to, kind, count, link_speed(element, kind));
    }
    return {};
  }

  XmlText xml_;
  Topology topology_;
  std::map<std::string, NodeId> hosts_, by_bus_;
  std::map<NodeId, NodeId> fabrics_;
  std::vector<std::pair<NodeId, Xml>> gpus_;
  int unclassified_ = 0;
};

}  // namespace

Result<Topology> read_nccl_xml(std::string_view text, std::string_view name) {
  return NcclReader(text, name).read();
}

}  // namespace coll
