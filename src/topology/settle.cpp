// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: the rules for devices.
#include "topology/settle.hpp"

#include <algorithm>
#include <map>

#include "topology/reader_text.hpp"

namespace coll {
namespace {

/// N of the first alias "rsmiN", "nvmlN" or "cudaN", whichever `runtime` is; -1 if there is none.
std::int32_t runtime_number(const Node& node, std::string_view runtime) {
  for (const std::string& alias : node.aliases)
    if (alias.starts_with(runtime))
      return number<std::int32_t>(std::string_view(alias).substr(runtime.size())).value_or(-1);
  return -1;
}

bool has_runtime_name(const Node& node) {
  return std::any_of(node.aliases.begin(), node.aliases.end(), [](const std::string& alias) {
    for (const std::string_view runtime : {"rsmi", "nvml", "cuda", "opencl", "ze"})
      if (alias.starts_with(runtime)) return true;
    return false;
  });
}

void number_gpus(Topology& topology) {
  std::map<NodeId, std::vector<NodeId>> by_host;
  for (NodeId id = 0; id < topology.size(); ++id)
    if (topology[id].kind == NodeKind::gpu)
      by_host[topology.above(id, NodeKind::host)].push_back(id);
  for (const auto& host : by_host) {
    const std::vector<NodeId>& gpus = host.second;
    const auto numbers = [&](auto number_of) {
      std::vector<std::int32_t> found;
      for (const NodeId gpu : gpus) found.push_back(number_of(topology[gpu]));
      std::vector<std::int32_t> sorted = found;
      std::sort(sorted.begin(), sorted.end());
      const bool usable =
          sorted.front() >= 0 && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
      return usable ? found : std::vector<std::int32_t>{};
    };
    std::vector<std::int32_t> chosen = numbers([](const Node& node) { return node.index; });
    for (const std::string_view runtime : {"rsmi", "nvml", "cuda"})
      if (chosen.empty())
        chosen = numbers([&](const Node& node) { return runtime_number(node, runtime); });
    for (std::size_t at = 0; at < gpus.size(); ++at) {
      Node& gpu = topology.nodes[static_cast<std::size_t>(gpus[at])];
      gpu.index = chosen.empty() ? static_cast<std::int32_t>(at) : chosen[at];
      gpu.name = "GPU" + std::to_string(gpu.index);
    }
  }
}

void warn_of_twins(Topology& topology) {
  std::map<std::pair<NodeId, std::string>, int> seen;
  for (NodeId id = 0; id < topology.size(); ++id)
    if (const std::string& bus = topology[id].pci.bus; !bus.empty())
      ++seen[{topology.above(id, NodeKind::host), bus}];
  for (const auto& [place, times] : seen)
    if (times > 1)
      topology.warn("bus number " + place.second + " is given " + std::to_string(times) +
                    " times: taken as different devices, told apart by their place");
}

}  // namespace

void wake_uplinks(Topology& topology) {
  constexpr double kIdle = 5, kAwake = 16;  // GT/s
  // Children come after parents: backwards, each node has seen all below it.
  std::vector<double> fastest(topology.nodes.size());
  std::vector<NodeId> fastest_below(topology.nodes.size(), kNoNode);
  for (NodeId id = topology.size() - 1; id >= 0; --id) {
    const auto at = static_cast<std::size_t>(id);
    Node& node = topology.nodes[at];
    PciFunction& pci = node.pci;
    if (node.kind == NodeKind::pci_switch && pci.transfers_per_s > 0 &&
        pci.transfers_per_s <= kIdle && fastest[at] >= kAwake) {
      const PciFunction& model = topology[fastest_below[at]].pci;
      topology.warn("the uplink of PCI switch " + pci.bus + " says " +
                    std::to_string(pci.transfers_per_s).substr(0, 4) +
                    " GT/s above devices of more: idle or virtual; the speed of " + model.bus +
                    " is assumed");
      pci.transfers_per_s = model.transfers_per_s;
      pci.lanes = std::max(pci.lanes, model.lanes);
      pci.gbytes_per_s = pci_gbytes_per_s(pci.transfers_per_s, pci.lanes);
    }
    if (node.parent == kNoNode) continue;
    const auto parent = static_cast<std::size_t>(node.parent);
    const double here = std::max(fastest[at], pci.transfers_per_s);
    if (here > fastest[parent]) {
      fastest[parent] = here;
      fastest_below[parent] = pci.transfers_per_s >= here ? id : fastest_below[at];
    }
  }
}

void settle_devices(Topology& topology) {
  for (Node& node : topology.nodes) {
    if (node.kind != NodeKind::pci_device) continue;
    if (computes(node.pci.class_code, has_runtime_name(node), node.pci.gbytes_per_s)) {
      node.kind = NodeKind::gpu;
    } else if (is_network(node.pci.class_code)) {
      node.kind = NodeKind::nic;
      if (!node.ports.empty()) node.name = node.ports.front().name;
    }
  }
  number_gpus(topology);
  warn_of_twins(topology);
  wake_uplinks(topology);
}

}  // namespace coll
