// SPDX-License-Identifier: Apache-2.0
// The plan: algorithm, lanes, slices and protocol for one size class of one operation.
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
  [[nodiscard]] std::tuple<Collective, Rank, Rank, bool, SumOrder, std::uint32_t> parts() const {
    return {spec.collective, spec.ranks, spec.root, spec.unequal, spec.order, size_class};
  }
};

/// How calls of one size class of one operation run. Every rank computes the same plan, because it
/// is a pure function of what all ranks know about all ranks.
struct Plan {
  const Algorithm* algorithm = nullptr;
  CollectiveSpec spec;
  Cost cost;
  std::uint32_t lanes = 1;        ///< copies of the schedule's lanes, on interleaved windows
  std::uint32_t slice_bytes = 0;  ///< length of the longest message
  /// Chunks of any rank's longest message. All ranks use it, so that they cut their windows alike.
  std::uint32_t message_chunks = 1;
  Loans loans = Loans::none;
  Cut demanded = {};  ///< lanes and slices that knobs or the tuning table demand
  /// Prediction::us and ::each_us by which it was chosen; `expect` says what to expect of it.
  double predicted_us = 0, predicted_each_us = 0;
  double measured_us = 0;  ///< time in the tuning table; 0: the table does not have the recipe
  bool forced = false;     ///< COLL_ALGORITHM forced the algorithm

  /// A hash of the plan. It is part of each call's digest, so that ranks detect different plans.
  [[nodiscard]] std::uint64_t digest() const;
};

}  // namespace coll
