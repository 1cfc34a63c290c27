// SPDX-License-Identifier: Apache-2.0
// Trees over all members of a group.
#pragma once
#include <span>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// The parent of each member of a group, as places in it; -1: the root.
using Tree = std::vector<int>;

/// Trees that can run at once. Between hosts two for each NIC that serves the GPUs: a binary tree
/// of hosts and its mirror image, so that all but one host have children in one of the two only
/// (Sanders, Speck, Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
/// scan"). Inside of a host a chain from the GPU nearest to the NIC on (host_rings); within one
/// host chains along ring_orders.
std::vector<Tree> balanced_trees(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
