// SPDX-License-Identifier: Apache-2.0
// Plans for coll-tune, and whether two of them run the same.
#include "coll_tune/coll_tune_planning.hpp"

#include <algorithm>

namespace perf {

coll::Recipe Planning::recipe_of(const coll::Plan& plan) const {
  coll::Recipe recipe{std::string(plan.algorithm->name)};
  if (!alike(plan, forced(recipe))) recipe.cut = {plan.lanes, plan.slice_bytes};
  return recipe;
}

bool Planning::alike(const coll::Plan& a, const coll::Plan& b) const {
  if (a.lanes != b.lanes || a.slice_bytes != b.slice_bytes || a.loans != b.loans ||
      a.message_chunks != b.message_chunks)
    return false;
  const coll::Rank stride = std::max(1, spec_.ranks / 16);
  for (coll::Rank rank = 0; rank < spec_.ranks; rank += stride) {
    const coll::Schedule one = a.algorithm->build(spec_, world_.layout, rank);
    coll::Schedule other = b.algorithm->build(spec_, world_.layout, rank);
    other.algorithm = one.algorithm;
    if (one != other) return false;
  }
  return true;
}

coll::Plan Planning::plan(std::string algorithm, bool tuned) const {
  coll::World with = world_;
  with.algorithm = std::move(algorithm);
  if (!tuned) with.tuning.clear();
  const coll::Result<coll::Plan> plan = make_plan(with, {spec_, size_class_});
  COLL_CHECK(plan.ok(), "nobody is forced to what it cannot");
  return *plan;
}

}  // namespace perf
