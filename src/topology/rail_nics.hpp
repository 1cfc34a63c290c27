// SPDX-License-Identifier: Apache-2.0
// Which NICs carry what goes between hosts.
#pragma once
#include <span>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// The NICs of a host that are worth using, in order; the nth of every host is on rail n. Where
/// speeds are known the fastest, others are for management. Where none is known, and the host has
/// GPUs that share PCI switches with NICs, those that do.
std::vector<NodeId> rail_nics(const Topology& topology, NodeId host);

/// Of these, the ones for a group of GPUs of one host: those that no GPU outside of the group is
/// nearer to; the one that is nearest to the group if there is none.
std::vector<NodeId> rail_nics(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
