// SPDX-License-Identifier: Apache-2.0
// Which links messages take within a host: GPU links, PCI, sockets.
#include "planner/networks/host_ways.hpp"

#include <algorithm>

#include "topology/gpu_models.hpp"
#include "topology/topology_path.hpp"

namespace coll {

HostWays::HostWays(const Topology& topology, const LinkCost& costs)
    : topology_(topology), costs_(costs), one_host_(topology.count(NodeKind::host) == 1) {}

std::string HostWays::name(NodeId id) const {
  const std::string text = label(topology_, id);
  const NodeId host = topology_.above(id, NodeKind::host);
  if (host == kNoNode || host == id || one_host_) return text;
  return text + " of " + label(topology_, host);
}

std::vector<HostLink> HostWays::between_gpus(NodeId a, NodeId b) {
  return link_path_between(topology_, a, b).links > 0 ? over_links(a, b) : through_pci(a, b);
}

/// Direct links if there are any, else through the host's fabric of switches.
std::vector<HostLink> HostWays::over_links(NodeId a, NodeId b) const {
  const auto yield = [this](const Link& link) {
    const bool xgmi = link.kind == LinkKind::xgmi;
    const double usual = xgmi ? costs_.xgmi_gbytes_per_s : costs_.nvlink_gbytes_per_s;
    const double each = link.gbytes_per_s > 0 ? link.gbytes_per_s : usual;
    return each * link.count * (xgmi ? costs_.xgmi_yield : costs_.nvlink_yield);
  };
  for (const Link& link : topology_.links_from(a)) {
    if (link.to == b) return {{name(a) + " to " + name(b), a, b, yield(link)}};
  }
  for (const Link& out : topology_.links_from(a)) {
    if (topology_[out.to].kind != NodeKind::link_switch) continue;
    for (const Link& in : topology_.links_from(out.to)) {
      if (in.to != b) continue;
      return {{"links of " + name(a) + ", out", a, out.to, yield(out)},
              {"links of " + name(b) + ", in", out.to, b, yield(in)}};
    }
  }
  return {};
}

/// What a device's PCI link moves that nobody has told of: as its name says; else as the fastest
/// device of its host does, and as its NICs need.
double HostWays::assumed_pci(NodeId device) {
  if (const double usual = usual_pci_gbytes_per_s(topology_[device]); usual > 0) return usual;
  const NodeId host = topology_.above(device, NodeKind::host);
  const auto [known, fresh] = assumed_pci_.emplace(host, costs_.pcie_gbytes_per_s);
  if (!fresh) return known->second;
  for (const NodeKind kind : {NodeKind::gpu, NodeKind::nic})
    for (const NodeId each : topology_.parts(host, kind)) {
      const Node& node = topology_[each];
      double& rate = known->second;
      rate = std::max({rate, node.pci.gbytes_per_s, usual_pci_gbytes_per_s(node)});
      if (node.pci.gbytes_per_s <= 0)
        while (rate < port_gbytes_per_s(node)) rate *= 2;  // a generation more
    }
  return known->second;
}

std::vector<HostLink> HostWays::through_pci(NodeId a, NodeId b) {
  std::vector<HostLink> links;
  const PciWay way = pci_way(topology_, a, b);
  const auto pass = [&](NodeId part, bool up) {
    double rate = topology_[part].pci.gbytes_per_s * costs_.pcie_yield;
    const NodeKind kind = topology_[part].kind;
    if (rate <= 0 && (kind == NodeKind::gpu || kind == NodeKind::nic))
      rate = assumed_pci(part) * costs_.pcie_yield;
    if (rate <= 0) return;
    links.push_back({"PCI of " + name(part) + (up ? ", up" : ", down"), up ? part : kNoNode,
                     up ? kNoNode : part, rate});
  };
  for (const NodeId part : way.up) pass(part, true);
  const NodeId package_a = topology_.above(a, NodeKind::package);
  const NodeId package_b = topology_.above(b, NodeKind::package);
  if (package_a != package_b && package_a != kNoNode && package_b != kNoNode) {
    links.push_back(
        {name(package_a) + " to " + name(package_b), package_a, package_b, kBetweenPackages});
  }
  for (const NodeId part : way.down) pass(part, false);
  return links;
}

}  // namespace coll
