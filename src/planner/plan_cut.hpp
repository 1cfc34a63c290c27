// SPDX-License-Identifier: Apache-2.0
// How a plan cuts its calls: protocol, slices, lanes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/plan.hpp"
#include "planner/prediction.hpp"

namespace coll {

/// A plan that the planner considered, with its prediction.
struct Candidate {
  Plan plan;
  Prediction prediction;
};

/// What a search for the best plan must find out.
enum class Search : std::uint8_t {
  all,   ///< the prediction of every candidate, for a person
  best,  ///< the first candidate; others that are certain to be behind may take for ever
};

/// The size class of a call. Calls of one class share a plan. Class c holds sizes up to 2^c bytes
/// that class c - 1 does not hold.
std::uint32_t size_class(std::uint64_t bytes);
/// The largest size of a class: 2^size_class bytes.
double most_bytes(std::uint32_t size_class);

/// The model's error as a factor: predictions that differ by less count as equal. On real machines
/// it is the error that was measured (docs/performance.md). On a described machine the error is
/// unknown, so only nearly equal predictions count as equal.
double alike(const World& world);

/// The loans to expect of a plan's calls of `bytes`: where ranks find out whether copies are better
/// fetched, what the world's costs say.
Loans likely_loans(const World& world, const Plan& plan, double bytes);

/// Whether two plans of one algorithm move a call in the same way.
bool cut_alike(const Plan& a, const Plan& b);

/// The plan for calls of `size_class` with this algorithm, which must support them. It is cut as
/// `demanded`, as far as connections can carry that; whatever is not demanded follows rules that
/// measurements have shown to be good. The plan has no prediction yet.
Plan plan_with(const World& world, const CollectiveSpec& spec, const Algorithm& algorithm,
               Cut demanded, std::uint32_t size_class);

/// The plan of plan_with, and between GPUs of a described machine also one whose slices are short
/// enough to travel with flags. Which of both is faster depends on every message of the schedule,
/// so the planner judges each algorithm by the better one.
std::vector<Plan> plans_with(const World& world, const CollectiveSpec& spec,
                             const Algorithm& algorithm, Cut demanded, std::uint32_t size_class);

/// Simulates the plan with other protocols, slices and lanes, except for those that were demanded.
/// The first candidate is the one to take: `rule`, unless another is ahead by more than the model's
/// error. `of_rule`: its prediction, if that is known.
std::vector<Candidate> cuts(const World& world, const Plan& rule, std::uint32_t size_class,
                            Search search = Search::all,
                            const std::optional<Prediction>& of_rule = {});

/// The cuts that are worth measuring for calls of `size_class`: slices up to one that holds all
/// bytes that a rank moves, and lanes as long as each has a slice. Empty if the shortest slice
/// holds all bytes.
std::vector<Cut> sensible_cuts(const World& world, const Cost& cost, std::uint32_t size_class);

}  // namespace coll
