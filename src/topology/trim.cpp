// SPDX-License-Identifier: Apache-2.0
// Drops the parts of a machine that neither join nor separate ranks.
#include "topology/trim.hpp"

namespace coll {
namespace {

bool only_for_devices(NodeKind kind) {
  return kind == NodeKind::host_bridge || kind == NodeKind::pci_switch ||
         kind == NodeKind::pci_port || kind == NodeKind::pci_device;
}

void forget_details(Node& node) {
  node.aliases.clear();
  for (Port& port : node.ports) {
    port.link.clear();
    port.state.clear();
  }
  std::erase_if(node.info, [](const auto& each) {
    return each.first != "CPUModel" && each.first != "CpuQuota" && each.first != "sm" &&
           each.first != "gcn";
  });
}

}  // namespace

std::vector<bool> parts_for_plans(const Topology& topology) {
  std::vector<bool> counts(topology.nodes.size());
  for (NodeId id = topology.size() - 1; id >= 0; --id) {
    const auto at = static_cast<std::size_t>(id);
    if (!only_for_devices(topology[id].kind)) counts[at] = true;
    if (counts[at] && topology[id].parent != kNoNode)
      counts[static_cast<std::size_t>(topology[id].parent)] = true;
  }
  return counts;
}

Topology without_details(const Topology& topology) {
  const bool has_gpus = topology.count(NodeKind::gpu) > 0;
  const std::vector<bool> counts = parts_for_plans(topology);
  const auto stays = [&](NodeId id) {
    const NodeKind kind = topology[id].kind;
    return counts[static_cast<std::size_t>(id)] && kind != NodeKind::cache &&
           kind != NodeKind::pu && !(has_gpus && kind == NodeKind::core);
  };
  std::vector<NodeId> place(topology.nodes.size(), kNoNode);
  Topology kept;
  kept.source = topology.source;
  kept.warnings = topology.warnings;
  for (NodeId id = 0; id < topology.size(); ++id) {
    const Node& node = topology[id];
    NodeId& own = place[static_cast<std::size_t>(id)];
    const NodeId parent =
        node.parent == kNoNode ? kNoNode : place[static_cast<std::size_t>(node.parent)];
    if (!stays(id)) {
      own = parent;  // where its parts go
      continue;
    }
    own = kept.add(node);
    kept.nodes.back().parent = parent;
    forget_details(kept.nodes.back());
  }
  const auto moved = [&](NodeId id) { return place[static_cast<std::size_t>(id)]; };
  for (Link link : topology.links) {
    if (!stays(link.from) || !stays(link.to)) continue;
    link.from = moved(link.from);
    link.to = moved(link.to);
    kept.links.push_back(link);
  }
  for (const ToldDistance& told : topology.told)
    if (stays(told.a) && stays(told.b))
      kept.told.push_back({moved(told.a), moved(told.b), told.distance});
  for (NumaLatency table : topology.latencies) {
    table.host = moved(table.host);
    kept.latencies.push_back(std::move(table));
  }
  for (CpuKind kind : topology.cpu_kinds) {
    kind.host = moved(kind.host);
    kept.cpu_kinds.push_back(std::move(kind));
  }
  return kept;
}

}  // namespace coll
