// SPDX-License-Identifier: Apache-2.0
// Measured copy times relative to the model, and the one place that scales the model by them.
#pragma once
#include <cstdint>
#include <vector>

#include "planner/costs/cost_constants.hpp"
#include "topology/layout.hpp"

namespace coll {

/// Measured copy and fetch times relative to the constants of the model, as exponents of two: 1
/// means twice as long. The coarse scale hides that measurements differ a little each time, and
/// changes decisions only where they depend on it strongly.
struct CopyFactors {
  /// The bounds. A copy from another core also waits for its cache lines, which a copy in a core's
  /// own cache does not show, so it does not get much faster (kLeast). The most expensive fetch
  /// costs more than any two copies: it stands for a kernel that forbids fetching.
  static constexpr std::int32_t kLeast = -1, kMostCopy = 2, kMostFetch = 4;
  std::int32_t copy = 0;
  std::int32_t fetch = 0;

  [[nodiscard]] bool sensible() const {
    return copy >= kLeast && copy <= kMostCopy && fetch >= kLeast && fetch <= kMostFetch;
  }
  friend bool operator==(const CopyFactors&, const CopyFactors&) = default;
};

/// The factors for measured times of a copy and a fetch, in microseconds per byte.
CopyFactors copy_factors(const CostConstants& costs, double copy_us_per_byte,
                         double fetch_us_per_byte);

/// The factors that all ranks plan with: within a host the fastest rank's, because it was disturbed
/// the least; among hosts the slowest copy and the slowest fetch. `of_ranks` is indexed by rank.
CopyFactors agreed(const std::vector<CopyFactors>& of_ranks, const Layout& layout);

/// The constants with copies and fetches within a host as slow as the factors say.
CostConstants scaled(const CostConstants& costs, CopyFactors factors);

}  // namespace coll
