// SPDX-License-Identifier: Apache-2.0
// The planner: from an operation, a size class and a world to a plan.
#pragma once
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/plan_cut.hpp"

namespace coll {

/// The plan for calls of a key. Fails only if a forced algorithm does not support the
/// operation. Plans for equal worlds come from a cache (plan_memory.hpp), because programs create
/// similar communicators again and again.
Result<Plan> make_plan(const World& world, const PlanKey& key);
/// Like make_plan, but without the cache.
Result<Plan> plan_afresh(const World& world, const PlanKey& key);

/// All algorithms that support the operation, best first. Those that the closed formula finds far
/// behind come last and are not simulated.
std::vector<Candidate> candidates(const World& world, const CollectiveSpec& spec,
                                  std::uint32_t size_class, Search search = Search::all);

/// A text for a person: the choice, its numbers and the runners-up.
std::string explain(const World& world, const Plan& plan, std::uint32_t size_class);

}  // namespace coll
