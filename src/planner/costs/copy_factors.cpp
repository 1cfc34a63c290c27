// SPDX-License-Identifier: Apache-2.0
// From measured copy times to factors, and from factors to scaled constants.
#include "planner/costs/copy_factors.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

namespace {

/// log2(now / usual) as a whole number, from `kLeast` to `most`; 0 where one is unknown. Rounded up
/// from `border` on: a ratio between two powers of two, as a part of the higher one. By IEEE
/// arithmetic alone: libraries differ in the last bits of log2, and all ranks must agree.
std::int32_t doublings(double now, double usual, double border, std::int32_t most) {
  if (std::isinf(now)) return most;
  if (!(now > 0 && usual > 0)) return 0;
  const double ratio =
      std::clamp(now / usual, std::ldexp(1, CopyFactors::kLeast), std::ldexp(1, most));
  int exponent = 0;
  const double mantissa = std::frexp(ratio, &exponent);  // 0.5 to 1
  return mantissa < border ? exponent - 1 : exponent;
}

}  // namespace

CopyFactors copy_factors(const CostConstants& costs, const ProbeCost& measured) {
  constexpr double kHalfWay = 0.70710678118654752440;
  const ProbeCost& usual = costs.probe;
  return {.copy = doublings(measured.copy_us_per_byte, usual.copy_us_per_byte, kHalfWay,
                            CopyFactors::kMostCopy),
          .fetch = doublings(measured.fetch_us_per_byte, usual.fetch_us_per_byte,
                             costs.cut.fetch_border, CopyFactors::kMostFetch)};
}

CostConstants scaled(const CostConstants& costs, CopyFactors factors) {
  CostConstants of = costs;
  for (double* copy : {&of.copy.us_per_byte, &of.memory.send_us_per_byte,
                       &of.memory.receive_us_per_byte, &of.memory.fetch_cold_us_per_byte}) {
    *copy = std::ldexp(*copy, factors.copy);
  }
  of.memory.fetch_us_per_byte = std::ldexp(of.memory.fetch_us_per_byte, factors.fetch);
  return of;
}

}  // namespace coll
