// SPDX-License-Identifier: Apache-2.0
// Plans that were made before in this process.
#pragma once
#include <optional>

#include "planner/plan.hpp"
#include "planner/world.hpp"

namespace coll {

/// The plan for such calls in an equal world, if it is remembered: to plan anew takes milliseconds,
/// and many communicators of a process are alike. Described machines and worlds of over 1,024 ranks
/// are not remembered.
std::optional<Plan> remembered_plan(const World& world, const PlanKey& key);
void remember(const World& world, const PlanKey& key, const Plan& plan);

}  // namespace coll
