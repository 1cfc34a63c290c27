// SPDX-License-Identifier: Apache-2.0
// The cost model on the machine where ranks met: its constants scaled by what they measured there.
#pragma once
#include <vector>

#include "planner/costs/cost_constants.hpp"
#include "topology/layout.hpp"

namespace coll {

/// What all ranks predict with. Of each value, a host's is the least that its ranks measured,
/// because that rank was disturbed the least. The largest among the hosts counts; it is infinite
/// where a host forbids it, and 0 where no rank knows it. `of_ranks` is indexed by rank.
ProbeCost agreed(const std::vector<ProbeCost>& of_ranks, const Layout& layout);

/// The constants on a machine where `now` was measured. A constant is scaled by the measured value
/// that it follows, over that value on the model's machine; what is not known on either machine
/// scales nothing, but passing then follows copies. These constants serve predictions only. Plans
/// of sums must not depend on measurements, and other plans depend on CopyFactors.
CostConstants measured_costs(const CostConstants& costs, const ProbeCost& now,
                             double ranks_per_core);

}  // namespace coll
