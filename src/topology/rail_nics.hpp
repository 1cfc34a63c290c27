// SPDX-License-Identifier: Apache-2.0
// Which NICs carry what goes between hosts.
#pragma once
#include <span>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// The NICs of a host that are worth using, in order; the nth of every host is on rail n. If speeds
/// are known, these are the fastest NICs; others are for management. If no speed is known, and some
/// NICs share PCI switches with GPUs, these are those NICs.
std::vector<NodeId> rail_nics(const Topology& topology, NodeId host);

/// The rail NICs for a group of GPUs of one host: the NICs to which no GPU outside of the group is
/// nearer. If there is none, the NIC that is nearest to the group.
std::vector<NodeId> rail_nics(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
