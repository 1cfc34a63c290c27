// SPDX-License-Identifier: Apache-2.0
// Plans that were made before in this process.
#include "planner/plan_memory.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

namespace coll {
namespace {

struct PlannedWorld {
  World world;
  std::map<PlanKey, Plan> plans;
};

constexpr std::size_t kMostWorlds = 64;
/// For larger worlds a formula decides, which takes microseconds.
constexpr Rank kMostRanks = 1024;

/// A fork may have left it locked for ever, so nobody waits for it: who does not get it plans anew.
constinit std::mutex mutex;
/// The latest first. Never destroyed: threads of streams may plan until the process ends.
constinit std::list<PlannedWorld>* worlds = nullptr;

bool remembered(const World& world) {
  return !world.network && world.layout.ranks() <= kMostRanks;
}

/// Whether both lead to the same plans.
bool plans_alike(const World& a, const World& b) {
  const auto numbers = [](const World& of) {
    return std::tie(of.view.path, of.view.between, of.view.factors, of.view.ranks_per_core,
                    of.view.cores, of.slot_bytes, of.passing_bytes, of.credits, of.max_lanes,
                    of.shared_memory, of.network, of.algorithm, of.cut, of.tuning);
  };
  return a.layout == b.layout && numbers(a) == numbers(b) &&
         (a.model == b.model || *a.model == *b.model);
}

auto find(const World& world) {
  return std::ranges::find_if(
      *worlds, [&](const PlannedWorld& each) { return plans_alike(each.world, world); });
}

}  // namespace

std::optional<Plan> remembered_plan(const World& world, const PlanKey& key) {
  if (!remembered(world)) return {};
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || worlds == nullptr) return {};
  const auto known = find(world);
  if (known == worlds->end()) return {};
  const auto plan = known->plans.find(key);
  if (plan == known->plans.end()) return {};
  return plan->second;
}

void remember(const World& world, const PlanKey& key, const Plan& plan) {
  if (!remembered(world)) return;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  if (worlds == nullptr) worlds = new std::list<PlannedWorld>;
  auto known = find(world);
  if (known == worlds->end()) {
    if (worlds->size() == kMostWorlds) worlds->pop_back();
    known = worlds->insert(worlds->begin(), {world, {}});
  }
  known->plans.emplace(key, plan);
}

}  // namespace coll
