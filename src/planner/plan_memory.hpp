// SPDX-License-Identifier: Apache-2.0
// A cache of the plans that this process has made.
#pragma once
#include <optional>

#include "planner/plan.hpp"
#include "planner/world.hpp"

namespace coll {

/// The cached plan for such calls in an equal world, if there is one. Planning takes milliseconds,
/// and many communicators of a process are alike. Plans for worlds with a network of their own
/// (World::network) and for worlds of over 1,024 ranks are not cached.
std::optional<Plan> remembered_plan(const World& world, const PlanKey& key);
/// Adds a plan to the cache.
void remember(const World& world, const PlanKey& key, const Plan& plan);

}  // namespace coll
