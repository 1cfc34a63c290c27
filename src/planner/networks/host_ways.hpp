// SPDX-License-Identifier: Apache-2.0
// Which links messages take within a host, and what they move.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "planner/costs/cost_constants.hpp"
#include "topology/topology.hpp"

namespace coll {

/// A link of a host, in one direction. What goes out of a part has no `to`, what comes in no
/// `from`; a name and two ends make a link.
struct HostLink {
  std::string name;
  NodeId from = kNoNode, to = kNoNode;
  double gbytes_per_s = 0;  ///< that data gets of it
};

/// Finds the links on the ways of a machine's hosts, for described machines and for hosts where
/// ranks meet. Links and devices without a known rate get the usual one. Switches without a known
/// rate limit nothing and are not in a way.
class HostWays {
 public:
  /// Keeps references to both.
  HostWays(const Topology& topology, const LinkCost& costs);

  /// Over links if there are any from one to the other, else through PCI.
  std::vector<HostLink> between_gpus(NodeId a, NodeId b);
  /// Through PCI and the processors; the host itself may be an end.
  std::vector<HostLink> through_pci(NodeId a, NodeId b);
  /// What a person calls a part; with its host, unless there is only one.
  [[nodiscard]] std::string name(NodeId id) const;

 private:
  [[nodiscard]] std::vector<HostLink> over_links(NodeId a, NodeId b) const;
  double assumed_pci(NodeId device);

  const Topology& topology_;
  const LinkCost& costs_;
  bool one_host_;
  std::map<NodeId, double> assumed_pci_;  ///< by host
};

}  // namespace coll
