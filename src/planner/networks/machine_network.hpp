// SPDX-License-Identifier: Apache-2.0
// The simulated network between the ranks of a described machine.
#pragma once
#include "planner/world.hpp"
#include "topology/rings/placement.hpp"
#include "topology/topology.hpp"

namespace coll {

/// Builds the network of a machine: GPU links, PCI, sockets, NICs and network switches become links
/// that messages share, with a route between any two ranks.
///
/// - Within a host a route takes GPU links where there are any, else PCI.
/// - Between hosts it takes the nearest NICs. Among equally short ways through the network, the
///   ranks' numbers choose one.
/// - Ranks on cores use shared memory, and TCP between hosts.
/// - Links, devices and NICs without a known rate get the default one, and so does a host without a
///   NIC. Switches and ports without a known rate limit nothing.
Network machine_network(const Topology& topology, const Placement& placement,
                        const CostConstants& costs);

/// The world of ranks placed on a described machine, as input for the planner.
World machine_world(const Topology& topology, const Placement& placement,
                    std::shared_ptr<const CostModel> model = default_cost_model());

}  // namespace coll
