// SPDX-License-Identifier: Apache-2.0
// How calls are cut: protocol, slices, lanes.
#pragma once
#include <vector>

#include "planner/plan.hpp"
#include "planner/prediction.hpp"

namespace coll {

/// A plan that the planner weighed, for explanations.
struct Candidate {
  Plan plan;
  Prediction prediction;
};

/// A call's size class: calls of one class share a plan. Class c holds sizes up to 2^c bytes.
std::uint32_t size_class(std::uint64_t bytes);
double most_bytes(std::uint32_t size_class);

/// Predictions that differ by less say nothing: so far is the model off where it was
/// measured (docs/performance.md). Of a described machine nobody knows how far: only what is about
/// equal is alike.
double alike(const World& world);

/// The plan for calls of `size_class` with this algorithm, which can do them, cut as demanded, as
/// far as connections carry that, and else by rules that measurements have shown to be good;
/// without a prediction.
Plan plan_with(const World& world, const CollectiveSpec& spec, const Algorithm& algorithm,
               Cut demanded, std::uint32_t size_class);

/// That plan, and between GPUs of a described machine also the one in slices that are short enough
/// to travel with flags: which of both is faster depends on every message of the schedule, so each
/// algorithm is judged by its better one.
std::vector<Plan> plans_with(const World& world, const CollectiveSpec& spec,
                             const Algorithm& algorithm, Cut demanded, std::uint32_t size_class);

/// The same algorithm in other protocols, slices and lanes, simulated, but for what the plan was
/// demanded to have; the one to take first: that of the rules, unless another is clearly better.
std::vector<Candidate> cuts(const World& world, const Plan& rule, std::uint32_t size_class);

/// Cuts to measure for calls of `size_class`, all that might make a difference: slices up to one
/// that holds all that a rank moves, lanes as long as there is a slice for each. None where that is
/// one least slice.
std::vector<Cut> sensible_cuts(const World& world, const Cost& cost, std::uint32_t size_class);

}  // namespace coll
