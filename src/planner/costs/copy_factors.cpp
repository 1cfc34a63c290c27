// SPDX-License-Identifier: Apache-2.0
// From measured copy times to factors, and from factors to scaled constants.
#include "planner/costs/copy_factors.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

CopyFactors copy_factors(const CostConstants& costs, const ProbeCost& measured) {
  const auto doublings = [](double now, double usual, double most) {
    if (now <= 0 || usual <= 0) return std::int32_t{0};
    return static_cast<std::int32_t>(
        std::lround(std::clamp<double>(std::log2(now / usual), CopyFactors::kLeast, most)));
  };
  const ProbeCost& usual = costs.probe;
  return {
      .copy = doublings(measured.copy_us_per_byte, usual.copy_us_per_byte, CopyFactors::kMostCopy),
      .fetch =
          doublings(measured.fetch_us_per_byte, usual.fetch_us_per_byte, CopyFactors::kMostFetch)};
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
