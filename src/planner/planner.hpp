// SPDX-License-Identifier: Apache-2.0
// From a request and the world to a plan.
#pragma once
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/plan_cut.hpp"

namespace coll {

/// The plan for calls of a key; fails only if a forced algorithm cannot do the operation.
/// What was planned for an equal world is remembered (plan_memory.hpp), for communicators that are
/// made again and again.
Result<Plan> make_plan(const World& world, const PlanKey& key);
/// The same, thought through anew.
Result<Plan> plan_afresh(const World& world, const PlanKey& key);

/// All algorithms that could do it, best first; those that a closed formula finds far behind
/// come last, and are not simulated.
std::vector<Candidate> candidates(const World& world, const CollectiveSpec& spec,
                                  std::uint32_t size_class);

/// For a person: the choice, its numbers and the runners-up.
std::string explain(const World& world, const Plan& plan, std::uint32_t size_class);

}  // namespace coll
