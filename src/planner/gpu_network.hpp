// SPDX-License-Identifier: Apache-2.0
// The network between GPUs of ranks that have joined.
#pragma once
#include "planner/costs/cost_constants.hpp"
#include "schedule/simulate/network.hpp"
#include "topology/layout.hpp"

namespace coll {

/// For calls that streams of the ranks' GPUs move. Nobody knows the links between them, so all of a
/// host are taken for alike: each GPU has links of the usual rate in both directions.
Network gpu_network(const Layout& layout, const CostConstants& costs);

}  // namespace coll
