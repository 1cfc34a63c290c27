// SPDX-License-Identifier: Apache-2.0
// Network switches between the hosts of a cluster, level by level.
#pragma once
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// Hosts that stand together in the network: all that follow each other, `pod` of them; or all.
struct NetworkPlan {
  /// What a switch of the first level has plugged in: of a pod the NICs of one rail, or all; or all
  /// of a rack.
  enum class Leaf : std::uint8_t { rail, pod, rack };
  Leaf leaf = Leaf::pod;
  int pod = 0;       ///< hosts; 0: all are one pod
  double gbits = 0;  ///< 1e9 bit/s of a NIC's link, if its port is not slower; 0: as the port

  /// Switches above a level: `switches` for each group of the parts below, each joined with all of
  /// its group.
  struct Level {
    enum class Group : std::uint8_t { all, pod, rail };
    Group group = Group::all;
    int switches = 1;
    int links = 1;
    double gbits = 0;  ///< of each of the links; 0: as the fastest NIC's
  };
  std::vector<Level> above;
};

/// One host as the network sees it.
struct PluggedHost {
  NodeId host = kNoNode;
  std::vector<NodeId> nics;  ///< by rail
};

/// Adds the switches and their links. Hosts stand in their order in the topology. An error where
/// these would be more than a topology may have.
Status add_network(Topology& topology, const std::vector<PluggedHost>& hosts,
                   const NetworkPlan& plan);

}  // namespace coll
