// SPDX-License-Identifier: Apache-2.0
// From measured copy times to factors, and from factors to scaled constants.
#include "planner/costs/copy_factors.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

namespace {

/// log2(now / usual), rounded up where its fraction is at least -log2(`next`), from `kLeast` to
/// `most`; 0 where one is unknown. By IEEE arithmetic alone: libraries differ in the last bits of
/// log2, and all ranks must agree.
std::int32_t doublings(double now, double usual, double next, std::int32_t most) {
  if (std::isinf(now)) return most;
  if (!(now > 0 && usual > 0)) return 0;
  const double ratio =
      std::clamp(now / usual, std::ldexp(1, CopyFactors::kLeast), std::ldexp(1, most));
  int exponent = 0;
  const double mantissa = std::frexp(ratio, &exponent);  // 0.5 to 1
  return mantissa < next ? exponent - 1 : exponent;
}

}  // namespace

CopyFactors copy_factors(const CostConstants& costs, const ProbeCost& measured) {
  // A fetch counts as the next doubling sooner: it is measured on a process's own memory, which
  // lies in its core's cache, and takes half as long again to reach another's.
  constexpr double kHalf = 0.70710678118654752440,
                   kQuarter = 0.59460355750136053336;  // 2^-1/2, -3/4
  const ProbeCost& usual = costs.probe;
  return {.copy = doublings(measured.copy_us_per_byte, usual.copy_us_per_byte, kHalf,
                            CopyFactors::kMostCopy),
          .fetch = doublings(measured.fetch_us_per_byte, usual.fetch_us_per_byte, kQuarter,
                             CopyFactors::kMostFetch)};
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
