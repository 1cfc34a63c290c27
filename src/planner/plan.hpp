// SPDX-License-Identifier: Apache-2.0
// The plan: how one size class of one operation runs.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>

#include "collectives/algorithms.hpp"
#include "planner/recipe.hpp"

namespace coll {

/// What a plan is for: one operation, for calls of up to 2^size_class bytes.
struct PlanKey {
  CollectiveSpec spec;
  std::uint32_t size_class = 0;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
  friend auto operator<=>(const PlanKey& a, const PlanKey& b) { return a.parts() <=> b.parts(); }

 private:
  [[nodiscard]] std::tuple<Collective, Rank, Rank, std::uint32_t> parts() const {
    return {spec.collective, spec.ranks, spec.root, size_class};
  }
};

/// How one size class of one operation runs. The same value on every rank: it is a pure function of
/// what all ranks know of all ranks.
struct Plan {
  const Algorithm* algorithm = nullptr;
  CollectiveSpec spec;
  Cost cost;
  std::uint32_t lanes = 1;        ///< copies of the schedule's lanes, on interleaved windows
  std::uint32_t slice_bytes = 0;  ///< the longest message
  /// Chunks of the longest message of any rank: all ranks must cut their windows alike.
  std::uint32_t message_chunks = 1;
  Loans loans = Loans::none;
  Cut demanded = {};  ///< of lanes and slices, by knobs or the tuning table
  double predicted_us = 0, predicted_each_us = 0;  ///< as in a Prediction
  double measured_us = 0;  ///< by the tuning table; 0: it knows nothing of the recipe
  bool forced = false;     ///< by the knob COLL_ALGORITHM

  /// Enters the digest of each call, so that ranks with different plans notice.
  [[nodiscard]] std::uint64_t digest() const;
};

}  // namespace coll
