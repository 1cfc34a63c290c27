// SPDX-License-Identifier: Apache-2.0
// Thresholds and factors that follow from several constants.
#include "planner/costs/cost_constants.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

bool in_own_cache(const CostConstants& costs, double bytes, double ranks_per_core) {
  return bytes * std::max(1.0, ranks_per_core) <= costs.cache.own_bytes;
}

double fetch_slowdown(const CostConstants& costs, const PathCost& path, double bytes,
                      double ranks_per_core) {
  const double least = ranks_per_core > 1 ? costs.sharing.crowded_fetch : 1;
  const double beyond = bytes * std::max(1.0, ranks_per_core) / costs.cache.own_bytes;
  const double most = costs.cache.fetch_doublings;
  // Whole numbers: ranks must agree, but libraries round logarithms differently.
  const double doublings = beyond <= 1 ? 0 : std::min<double>(most, std::ilogb(beyond));
  return least + std::max(0.0, path.fetch_slowdown - least) * doublings / most;
}

}  // namespace coll
