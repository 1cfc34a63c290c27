// SPDX-License-Identifier: Apache-2.0
// What NVML and sysfs add to the machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "sys/folder.hpp"
#include "sys/verbs/rdma_ports.hpp"
#include "topology/find_gpu.hpp"
#include "topology/read/discover.hpp"
#include "topology/read/link_claims.hpp"
#include "topology/reader_text.hpp"

namespace coll {
namespace {

namespace fs = std::filesystem;

NodeId at_bus(const Topology& topology, std::string_view bus) {
  for (NodeId id = 0; id < topology.size(); ++id)
    if (!bus.empty() && topology[id].pci.bus == bus && topology[id].kind != NodeKind::pci_port &&
        topology[id].kind != NodeKind::pci_switch)
      return id;
  return kNoNode;
}

/// A device that hwloc did not see: somewhere on the host.
NodeId add_device(Topology& topology, NodeKind kind, std::string bus, const std::string& name,
                  std::string_view who) {
  Node node;
  node.kind = kind;
  node.parent = 0;
  node.name = name;
  if (!bus.empty())
    topology.warn(std::string(who) + " knows " + name + " at " + bus +
                  ", hwloc does not: taken as somewhere on this host");
  node.pci.bus = std::move(bus);
  return topology.add(std::move(node));
}

/// One direction of one NVLink of a generation, 1e9 bytes/s (NVIDIA's data sheets).
double link_speed(unsigned version) {
  // NVML's numbers: 1 is NVLink 1; 2 and 3 NVLink 2; 4 and 5 NVLink 3; 6 NVLink 4; 7 NVLink 5.
  constexpr std::array<double, 8> speeds{0, 20, 25, 25, 25, 25, 25, 50};
  return version < speeds.size() ? speeds[version] : 0;
}

void set_pcie(PciFunction& pci, const NvmlGpu& gpu) {
  constexpr std::array<double, 7> rates{0, 2.5, 5, 8, 16, 32, 64};
  if (gpu.pcie_generation >= rates.size() || gpu.pcie_lanes > 32) return;
  const double speed =
      pci_gbytes_per_s(rates[gpu.pcie_generation], static_cast<int>(gpu.pcie_lanes));
  if (speed <= 0) return;
  // The width is the present one, the speed the highest: idle links slow down, but do not narrow.
  pci.transfers_per_s = rates[gpu.pcie_generation];
  pci.lanes = static_cast<int>(gpu.pcie_lanes);
  pci.gbytes_per_s = speed;
}

std::string first_word(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

/// The PCI function that a device of /sys/class belongs to; "" if it has none.
std::string bus_of(const fs::path& device) {
  std::error_code error;
  std::string bus;
  for (const fs::path& part : fs::canonical(device, error))
    if (const std::string text = part.string(); text.find(':') != text.npos)
      if (const auto found = bus_number(text)) bus = *found;
  return bus;
}

/// Keeps the larger speed if the port is there, adds it if not.
Port& set_port(Node& nic, const std::string& name, int port_number, double gbits_per_s) {
  for (Port& port : nic.ports)
    if (port.name == name && (port.number == port_number || port.number == 0 || port_number == 0)) {
      if (port_number > 0) port.number = port_number;
      port.gbits_per_s = std::max(port.gbits_per_s, gbits_per_s);
      return port;
    }
  return nic.ports.emplace_back(Port{name, port_number, -1, gbits_per_s});
}

void add_alias(Node& nic, const std::string& name) {
  if (std::find(nic.aliases.begin(), nic.aliases.end(), name) == nic.aliases.end())
    nic.aliases.push_back(name);
}

void set_rdma_port(Node& nic, const RdmaPort& known) {
  if (nic.name.empty()) nic.name = known.device;
  if (nic.numa.empty() && known.numa_node >= 0) nic.numa.push_back(known.numa_node);
  Port& port = set_port(nic, known.device, known.number, known.gigabits_per_s);
  port.link = known.ethernet ? "RoCE" : "InfiniBand";
  if (!known.unfit.empty()) port.link.clear();  // iWARP and others
  port.state = known.state == "unknown" ? "" : known.state;
}

/// A device of no bus, such as Soft-RoCE, is its interface's NIC by another name: the same bytes
/// pass through both. Without such a NIC it is one.
NodeId virtual_nic(Topology& topology, const RdmaPort& port) {
  for (NodeId id = 0; id < topology.size(); ++id) {
    Node& nic = topology.nodes[static_cast<std::size_t>(id)];
    if (nic.kind != NodeKind::nic) continue;
    if (nic.name == port.device) return id;
    for (const std::string& interface : port.interfaces) {
      if (std::find(nic.aliases.begin(), nic.aliases.end(), interface) == nic.aliases.end())
        continue;
      std::erase_if(nic.ports, [&](const Port& each) { return each.name == interface; });
      return id;
    }
  }
  return add_device(topology, NodeKind::nic, "", port.device, "sysfs");
}

NodeId nic_at(Topology& topology, const fs::path& device) {
  const std::string bus = bus_of(device / "device"), name = device.filename().string();
  NodeId id = at_bus(topology, bus);
  for (NodeId each = 0; id == kNoNode && each < topology.size(); ++each)
    if (topology[each].kind == NodeKind::nic && topology[each].name == name) id = each;
  if (id == kNoNode) id = add_device(topology, NodeKind::nic, bus, name, "sysfs");
  return id;
}

/// Not all GPUs copy to each other directly: those of consumers, and those of some virtual
/// machines.
void warn_of_unreached(Topology& topology, const std::vector<NvmlGpu>& gpus) {
  std::string pairs;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (const std::size_t b : gpus[a].unreached)
      pairs += (pairs.empty() ? "GPU" : ", GPU") + std::to_string(a) + "-GPU" + std::to_string(b);
  if (!pairs.empty())
    topology.warn("NVML says that these GPUs do not reach each other's memory: " + pairs);
}

}  // namespace

void add_nvml(Topology& topology, const std::vector<NvmlGpu>& gpus) {
  std::vector<NodeId> nodes;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    const NvmlGpu& gpu = gpus[index];
    const std::string name = "GPU" + std::to_string(index);
    const auto bus = bus_number(gpu.bus);
    if (!bus) {
      topology.warn("NVML's " + name + " does not answer: left out");
      nodes.push_back(kNoNode);
      continue;
    }
    NodeId id = at_bus(topology, *bus);
    if (id == kNoNode) id = add_device(topology, NodeKind::gpu, *bus, name, "NVML");
    Node& node = topology.nodes[static_cast<std::size_t>(id)];
    node.kind = NodeKind::gpu;
    node.index = static_cast<std::int32_t>(index);
    node.name = name;
    if (!gpu.name.empty()) node.model = gpu.name;
    if (!gpu.uuid.empty() && node.info_of(kUuidInfo).empty())
      node.info.emplace_back(kUuidInfo, gpu.uuid);
    set_pcie(node.pci, gpu);
    nodes.push_back(id);
  }
  // GPUs of other makers keep their order behind NVML's.
  auto next = static_cast<std::int32_t>(gpus.size());
  for (const NodeId id : topology.all(NodeKind::gpu))
    if (std::find(nodes.begin(), nodes.end(), id) == nodes.end()) {
      Node& node = topology.nodes[static_cast<std::size_t>(id)];
      node.index = next++;
      node.name = "GPU" + std::to_string(node.index);
    }

  warn_of_unreached(topology, gpus);

  NodeId fabric = kNoNode;
  for (NodeId id = 0; id < topology.size(); ++id)
    if (topology[id].kind == NodeKind::link_switch) fabric = id;
  LinkClaims claims;
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    if (nodes[index] == kNoNode) continue;
    for (const NvmlLink& link : gpus[index].links) {
      const NodeId peer = at_bus(topology, bus_number(link.peer_bus).value_or(""));
      NodeId to = peer;
      // Virtual machines hide the switches, and old drivers do not name the kind: what is no GPU
      // here is then taken for a switch.
      const bool no_gpu = peer == kNoNode || topology[peer].kind != NodeKind::gpu;
      if (link.peer == NvmlLink::Peer::link_switch ||
          (link.peer == NvmlLink::Peer::unknown && no_gpu)) {
        if (fabric == kNoNode) {
          Node node;
          node.kind = NodeKind::link_switch;
          node.parent = 0;
          node.name = "NVSwitch";
          fabric = topology.add(std::move(node));
        }
        to = fabric;
      } else if (link.peer == NvmlLink::Peer::processor) {
        to = topology.above(nodes[index], NodeKind::package);
      }
      if (to == kNoNode) {
        topology.warn("GPU" + std::to_string(index) + " has an NVLink to " + link.peer_bus +
                      ", which is hidden from this process: ignored");
        continue;
      }
      claims.claim(nodes[index], to, LinkKind::nvlink, 1, link_speed(link.version));
    }
  }
  if (claims.empty()) return;
  std::erase_if(topology.links, [](const Link& link) { return link.kind == LinkKind::nvlink; });
  claims.settle(topology);
}

void add_sysfs_nics(Topology& topology, const std::string& root) {
  std::error_code error;
  const std::vector<RdmaPort> ports = rdma_ports(root + "/sys");
  for (const RdmaPort& port : ports) {
    if (port.bus.empty()) continue;
    const NodeId id = nic_at(topology, root + "/sys/class/infiniband/" + port.device);
    set_rdma_port(topology.nodes[static_cast<std::size_t>(id)], port);
  }
  for (const fs::path& device : entries_of(root + "/sys/class/net")) {
    if (!fs::exists(device / "device", error)) continue;  // virtual: bridges, tunnels, loopback
    Node& nic = topology.nodes[static_cast<std::size_t>(nic_at(topology, device))];
    const std::string name = device.filename().string();
    const double speed = number<double>(first_word(device / "speed")).value_or(0) / 1000;
    add_alias(nic, name);
    const bool rdma = std::any_of(nic.ports.begin(), nic.ports.end(),
                                  [&](const Port& port) { return port.name != name; });
    if (!rdma) set_port(nic, name, 0, std::max(0.0, speed));
  }
  for (const RdmaPort& port : ports) {
    if (!port.bus.empty()) continue;
    Node& nic = topology.nodes[static_cast<std::size_t>(virtual_nic(topology, port))];
    set_rdma_port(nic, port);
    for (const std::string& interface : port.interfaces) add_alias(nic, interface);
  }
}

}  // namespace coll
