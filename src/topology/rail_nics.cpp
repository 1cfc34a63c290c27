// SPDX-License-Identifier: Apache-2.0
// Chooses the NIC of each GPU: the fastest first, then the nearest.
#include "topology/rail_nics.hpp"

#include <algorithm>

#include "topology/topology_path.hpp"

namespace coll {
namespace {

Distance nearest_of(const Topology& topology, NodeId nic, std::span<const NodeId> gpus) {
  Distance nearest = Distance::unknown;
  for (const NodeId gpu : gpus)
    nearest = std::min(nearest, pci_path_between(topology, nic, gpu).distance);
  return nearest;
}

}  // namespace

std::vector<NodeId> rail_nics(const Topology& topology, NodeId host) {
  std::vector<NodeId> nics = topology.parts(host, NodeKind::nic);
  double fastest = 0;
  for (const NodeId nic : nics) fastest = std::max(fastest, port_gbytes_per_s(topology[nic]));
  if (fastest > 0) {
    constexpr double kSame = 0.99;  // speeds of equal ports, as different sources round them
    std::erase_if(nics,
                  [&](NodeId nic) { return port_gbytes_per_s(topology[nic]) < kSame * fastest; });
    return nics;
  }
  const std::vector<NodeId> gpus = topology.parts(host, NodeKind::gpu);
  const auto beside_gpu = [&](NodeId nic) {
    return nearest_of(topology, nic, gpus) <= Distance::pxb;
  };
  if (std::any_of(nics.begin(), nics.end(), beside_gpu))
    std::erase_if(nics, [&](NodeId nic) { return !beside_gpu(nic); });
  return nics;
}

std::vector<NodeId> rail_nics(const Topology& topology, std::span<const NodeId> gpus) {
  if (gpus.empty()) return {};
  const NodeId host = topology.above(gpus[0], NodeKind::host);
  const std::vector<NodeId> all = topology.parts(host, NodeKind::gpu);
  const std::vector<NodeId> nics = rail_nics(topology, host);
  std::vector<NodeId> own;
  NodeId nearest = kNoNode;
  Distance least = Distance::unknown;
  for (const NodeId nic : nics) {
    const Distance to_group = nearest_of(topology, nic, gpus);
    if (to_group <= nearest_of(topology, nic, all)) own.push_back(nic);
    if (nearest == kNoNode || to_group < least) {
      nearest = nic;
      least = to_group;
    }
  }
  if (own.empty() && nearest != kNoNode) own.push_back(nearest);
  return own;
}

}  // namespace coll
