// SPDX-License-Identifier: Apache-2.0
// Places ranks on the parts of a machine.
#pragma once
#include <vector>

#include "topology/layout.hpp"
#include "topology/topology.hpp"

namespace coll {

/// A hop of one of the layout's rings from host to host, over the NICs that are this ring's.
struct RingHop {
  Rank from = 0, to = 0;
  NodeId out = kNoNode, in = kNoNode;
  friend bool operator==(const RingHop&, const RingHop&) = default;
};

/// Where each rank of a job would run.
struct Placement {
  Layout layout;
  std::vector<NodeId> node;  ///< of each rank: its GPU, or its core
  std::vector<NodeId> nic;   ///< of each rank: the nearest NIC of its host; kNoNode without any
  std::vector<RingHop> ring_hops;  ///< ring after ring; none where hosts have no NICs
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Places ranks as launchers do, host after host: on GPUs in the order of their runtime if there
/// are any in the whole topology, else on cores (or the smallest processor parts there are), fewer
/// than cores spread evenly over the host's. Where ranks are more than parts, neighbours share one,
/// all parts nearly equally many. Of NICs that are equally near, ranks take turns. An error where
/// there is no rank or nothing to place one on.
Result<Placement> place_ranks(const Topology& topology, Rank ranks);

}  // namespace coll
