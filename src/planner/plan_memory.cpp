// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: plans that were made
// before in this process.
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
  std::map<std::tuple<Collective, Rank, Rank, std::uint32_t>, Plan> plans;
};

struct PlanMemory {
  static constexpr std::size_t kMostWorlds = 64;

  std::mutex mutex;
  std::list<PlannedWorld> worlds;  ///< the latest first
};

/// It is never destroyed: threads of streams may plan until the process ends. A fork may have left
/// it locked for ever, so nobody waits for the lock: who does not get it plans anew.
PlanMemory& memory() {
  static auto* const only = new PlanMemory;
  return *only;
}

auto key_of(const CollectiveSpec& spec, std::uint32_t size_class) {
  return std::tuple(spec.collective, spec.ranks, spec.root, size_class);
}

/// Whether both lead to the same plans. The paths are constants, told apart by any of their
/// members.
bool plans_alike(const World& a, const World& b) {
  const auto numbers = [](const World& of) {
    return std::tie(of.view.path.alpha_us, of.view.between.alpha_us, of.view.ranks_per_core,
                    of.view.cores, of.slot_bytes, of.passing_bytes, of.max_lanes, of.shared_memory,
                    of.network, of.algorithm, of.cut, of.tuning);
  };
  return a.layout == b.layout && numbers(a) == numbers(b);
}

auto find(std::list<PlannedWorld>& worlds, const World& world) {
  return std::find_if(worlds.begin(), worlds.end(),
                      [&](const PlannedWorld& each) { return plans_alike(each.world, world); });
}

}  // namespace

std::optional<Plan> remembered_plan(const World& world, const CollectiveSpec& spec,
                                    std::uint32_t size_class) {
  if (world.network) return {};
  PlanMemory& all = memory();
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock) return {};
  const auto known = find(all.worlds, world);
  if (known == all.worlds.end()) return {};
  const auto plan = known->plans.find(key_of(spec, size_class));
  if (plan == known->plans.end()) return {};
  return plan->second;
}

void remember(const World& world, const Plan& plan, std::uint32_t size_class) {
  if (world.network) return;
  PlanMemory& all = memory();
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock) return;
  auto known = find(all.worlds, world);
  if (known == all.worlds.end()) {
    if (all.worlds.size() == PlanMemory::kMostWorlds) all.worlds.pop_back();
    known = all.worlds.insert(all.worlds.begin(), {world, {}});
  }
  known->plans.emplace(key_of(plan.spec, size_class), plan);
}

}  // namespace coll
