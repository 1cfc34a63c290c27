// SPDX-License-Identifier: Apache-2.0
// Drops the parts of a machine that neither join nor separate ranks.
#pragma once
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// Which nodes plans can depend on: all but the parts of PCI that neither are nor lead to a GPU or
/// NIC.
std::vector<bool> parts_for_plans(const Topology& topology);

/// The same machine for a place among thousands: without the above, caches, hardware threads, names
/// of devices' drivers and what else its source said of its parts; where ranks go to GPUs also
/// without cores. What is above them still says how many PUs there are.
Topology without_details(const Topology& topology);

}  // namespace coll
