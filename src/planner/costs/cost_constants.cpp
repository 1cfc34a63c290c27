// SPDX-License-Identifier: Apache-2.0
// Thresholds and factors that follow from several constants.
#include "planner/costs/cost_constants.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

bool in_own_cache(const CostConstants& costs, double bytes, double ranks_per_core) {
  return bytes * std::max(1.0, ranks_per_core) <= costs.cache.own_bytes;
}

double fetched_us_per_byte(const CostConstants& costs, const PathCost& path, double bytes,
                           double ranks_per_core) {
  // Ranks that share a core find its caches used, so their reads wait for memory from the start.
  const double cached = path.fetch_us_per_byte;
  const double crowd = ranks_per_core > 1 ? std::min(cached * (costs.sharing.crowded_fetch - 1),
                                                     path.fetch_cold_us_per_byte)
                                          : 0;
  const double beyond = bytes * std::max(1.0, ranks_per_core) / costs.cache.own_bytes;
  const double most = costs.cache.fetch_doublings;
  // Whole numbers: ranks must agree, but libraries round logarithms differently.
  const double doublings = beyond <= 1 ? 0 : std::min<double>(most, std::ilogb(beyond));
  return cached + crowd + (path.fetch_cold_us_per_byte - crowd) * doublings / most;
}

}  // namespace coll
