// SPDX-License-Identifier: Apache-2.0
// A closed formula for the time of a call.
#pragma once
#include "collectives/algorithms.hpp"
#include "planner/costs/cost_constants.hpp"

namespace coll {

/// Predicts the microseconds of a call over `path`, one of `costs`. `bytes` is the size of a rank's
/// larger buffer; the call is cut into messages of at most `slice_bytes`.
double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostConstants& costs, const PathCost& path, double ranks_per_core);

}  // namespace coll
