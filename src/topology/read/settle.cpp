// SPDX-License-Identifier: Apache-2.0
// Completes what was read: devices that sources name twice, or half.
#include "topology/read/settle.hpp"

#include <algorithm>
#include <cmath>
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

/// Whether a link is one that idle hardware trains down to: 2.5 or 5 GT/s per lane. Where only the
/// rate is told, its line code shows that: these speeds move 0.25 or 0.5 GB/s per lane, faster ones
/// no such round numbers.
bool may_sleep(const PciFunction& pci) {
  constexpr double kIdle = 5, kWidest = 8;  // GT/s; GB/s of 16 lanes at that
  if (pci.transfers_per_s > 0) return pci.transfers_per_s <= kIdle;
  const double quarters = pci.gbytes_per_s * 4;
  return pci.gbytes_per_s > 0 && pci.gbytes_per_s <= kWidest &&
         std::abs(quarters - std::round(quarters)) < 0.05;
}

/// How many times as fast `other` is, per lane if both say so.
double times_as_fast(const PciFunction& other, const PciFunction& pci) {
  if (pci.transfers_per_s > 0 && other.transfers_per_s > 0)
    return other.transfers_per_s / pci.transfers_per_s;
  return pci.gbytes_per_s > 0 ? other.gbytes_per_s / pci.gbytes_per_s : 0;
}

std::string speed_text(const PciFunction& pci) {
  const bool lanes = pci.transfers_per_s > 0;
  return std::to_string(lanes ? pci.transfers_per_s : pci.gbytes_per_s).substr(0, 4) +
         (lanes ? " GT/s" : " GB/s");
}

}  // namespace

void wake_uplinks(Topology& topology) {
  constexpr double kAsleep = 3;  // times slower than what is below it; a generation is 2
  // Children come after parents: backwards, each node has seen all below it.
  std::vector<NodeId> fastest_below(topology.nodes.size(), kNoNode);
  for (NodeId id = topology.size() - 1; id >= 0; --id) {
    Node& node = topology.nodes[static_cast<std::size_t>(id)];
    PciFunction& pci = node.pci;
    const NodeId fastest = fastest_below[static_cast<std::size_t>(id)];
    const bool port = node.kind == NodeKind::pci_switch || node.kind == NodeKind::pci_port;
    if (port && fastest != kNoNode && may_sleep(pci) &&
        times_as_fast(topology[fastest].pci, pci) >= kAsleep) {
      const PciFunction& model = topology[fastest].pci;
      topology.warn(
          (node.kind == NodeKind::pci_switch ? "the uplink of PCI switch " : "PCI port ") +
          pci.bus + " says " + speed_text(pci) +
          " above devices of more: idle or virtual; the speed of " + model.bus + " is assumed");
      const int lanes = std::max(pci.lanes, model.lanes);
      pci.transfers_per_s = model.transfers_per_s;
      pci.lanes = lanes;
      pci.gbytes_per_s = model.transfers_per_s > 0 ? pci_gbytes_per_s(model.transfers_per_s, lanes)
                                                   : model.gbytes_per_s;
    }
    if (node.parent == kNoNode) continue;
    NodeId& above = fastest_below[static_cast<std::size_t>(node.parent)];
    for (const NodeId each : {id, fastest})
      if (each != kNoNode && topology[each].pci.gbytes_per_s > 0 &&
          (above == kNoNode || times_as_fast(topology[each].pci, topology[above].pci) > 1))
        above = each;
  }
}

void settle_devices(Topology& topology) {
  for (Node& node : topology.nodes) {
    if (node.kind != NodeKind::pci_device) continue;
    if (computes(node.pci, has_runtime_name(node))) {
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
