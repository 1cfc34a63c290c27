// SPDX-License-Identifier: Apache-2.0
// From measured copy times to factors, and from factors to scaled constants.
#include "planner/costs/copy_factors.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

CopyFactors copy_factors(const CostConstants& costs, double copy_us_per_byte,
                         double fetch_us_per_byte) {
  const auto doublings = [](double us, double usual, double most) {
    return static_cast<std::int32_t>(
        std::lround(std::clamp<double>(std::log2(us / usual), CopyFactors::kLeast, most)));
  };
  return {.copy = doublings(copy_us_per_byte, costs.copy.us_per_byte, CopyFactors::kMostCopy),
          .fetch = doublings(fetch_us_per_byte, costs.memory.fetch_us_per_byte,
                             CopyFactors::kMostFetch)};
}

CopyFactors agreed(const std::vector<CopyFactors>& of_ranks, const Layout& layout) {
  CopyFactors most{CopyFactors::kLeast, CopyFactors::kLeast};
  for (Rank host = 0; host < layout.hosts(); ++host) {
    CopyFactors least{CopyFactors::kMostCopy, CopyFactors::kMostFetch};
    for (const Rank rank : layout.members_of(host)) {
      const CopyFactors& of = of_ranks[static_cast<std::size_t>(rank)];
      least = {std::min(least.copy, of.copy), std::min(least.fetch, of.fetch)};
    }
    most = {std::max(most.copy, least.copy), std::max(most.fetch, least.fetch)};
  }
  return most;
}

CostConstants scaled(const CostConstants& costs, CopyFactors factors) {
  CostConstants of = costs;
  for (double* copy :
       {&of.copy.us_per_byte, &of.memory.send_us_per_byte, &of.memory.receive_us_per_byte}) {
    *copy = std::ldexp(*copy, factors.copy);
  }
  of.memory.fetch_us_per_byte = std::ldexp(of.memory.fetch_us_per_byte, factors.fetch);
  return of;
}

}  // namespace coll
