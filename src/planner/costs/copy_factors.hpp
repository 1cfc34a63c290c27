// SPDX-License-Identifier: Apache-2.0
// Measured copy times as coarse factors, by which plans of copies are chosen.
#pragma once
#include <cstdint>

#include "planner/costs/cost_constants.hpp"

namespace coll {

/// Measured copy and fetch times relative to the model's machine, as exponents of two: 1 means
/// twice as long. The coarse scale hides that measurements differ a little each time, and changes
/// decisions only where they depend on it strongly.
struct CopyFactors {
  /// The bounds. A copy from another core also waits for its cache lines, which a copy in a core's
  /// own cache does not show, so it does not get much faster (kLeast). The most expensive fetch
  /// costs more than any two copies: it stands for a kernel that forbids fetching.
  static constexpr std::int32_t kLeast = -1, kMostCopy = 2, kMostFetch = 4;
  std::int32_t copy = 0;
  std::int32_t fetch = 0;
  friend bool operator==(const CopyFactors&, const CopyFactors&) = default;
};

/// The factors for what was measured, on all ranks the same bits.
CopyFactors copy_factors(const CostConstants& costs, const ProbeCost& measured);

/// The constants with copies and fetches within a host as slow as the factors say.
CostConstants scaled(const CostConstants& costs, CopyFactors factors);

}  // namespace coll
