// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: the choice.
#pragma once
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/cost_model.hpp"
#include "planner/plan.hpp"
#include "planner/tuning_table.hpp"

namespace coll {

/// What all ranks know of all ranks, agreed on while the communicator was made; equal on every
/// rank.
struct World {
  Layout layout;
  CostView view;
  std::uint32_t slot_bytes = 256 * 1024;    ///< no message is longer
  std::uint32_t passing_bytes = 64 * 1024;  ///< sensible for slices that pass through slots
  std::uint32_t max_lanes = 4;
  bool shared_memory = true;  ///< every pair of ranks talks through shared memory
  // rank 0's knobs
  std::string algorithm;          ///< COLL_ALGORITHM
  std::uint32_t lanes = 0;        ///< COLL_LANES, 0: choose
  std::uint32_t slice_bytes = 0;  ///< COLL_SLICE_BYTES, 0: choose
  // rank 0's tuning table
  std::vector<TuningPoint> tuning;  ///< for this world; they win over the model
  std::string tuning_file;
};

/// A candidate the planner weighed, for explanations.
struct Candidate {
  const Algorithm* algorithm;
  double predicted_us;
};

/// A call's size class: calls of one class share a plan. Class c holds sizes up to 2^c bytes.
std::uint32_t size_class(std::uint64_t bytes);

/// The plan for calls of `size_class`; fails only if a forced algorithm cannot do the operation.
Result<Plan> make_plan(const World& world, const CollectiveSpec& spec, std::uint32_t size_class);

/// All algorithms that could do it, best first.
std::vector<Candidate> candidates(const World& world, const CollectiveSpec& spec,
                                  std::uint32_t size_class);

/// For a person: the choice, its numbers and the runners-up.
std::string explain(const World& world, const Plan& plan, std::uint32_t size_class);

}  // namespace coll
