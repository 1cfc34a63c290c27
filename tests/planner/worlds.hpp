// SPDX-License-Identifier: Apache-2.0
// Worlds to plan for, and what tests ask of a plan.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "planner/planner.hpp"

namespace coll {

inline const CostConstants& usual_costs() {
  return default_cost_model()->constants;
}

inline World world_of(Rank ranks) {
  World world;
  world.layout = Layout::flat(ranks);
  return world;
}

inline Plan plan_of(const World& world, Collective collective, std::uint64_t bytes, Rank root = 0) {
  const CollectiveSpec spec{collective, world.layout.ranks(), root};
  const auto plan = make_plan(world, {spec, size_class(bytes)});
  EXPECT_TRUE(plan.ok()) << plan.status().text();
  return *plan;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace coll
