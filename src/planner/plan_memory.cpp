// SPDX-License-Identifier: Apache-2.0
// Plans that were made before, in this process or in an earlier one.
#include "planner/plan_memory.hpp"

#include <sys/auxv.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/made_once.hpp"
#include "planner/plan_file.hpp"
#include "sys/build_id.hpp"
#include "sys/folder.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

struct PlannedWorld {
  World world;
  std::map<PlanKey, Plan> plans;
  std::vector<PlanKey> own;  ///< those that this process has made and not yet left in a file
};

constexpr std::size_t kMostWorlds = 64;
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
  return a.view.factors == b.view.factors && a.plan_inputs() == b.plan_inputs();
}

/// The caller holds the lock.
auto find(const World& world) {
  return std::ranges::find_if(
      *worlds, [&](const PlannedWorld& each) { return plans_alike(each.world, world); });
}

/// The caller holds the lock.
PlannedWorld& planned(const World& world) {
  if (worlds == nullptr) worlds = new std::list<PlannedWorld>;
  if (const auto known = find(world); known != worlds->end()) return *known;
  if (worlds->size() == kMostWorlds) worlds->pop_back();
  return *worlds->insert(worlds->begin(), {world, {}, {}});
}

bool knows(const World& world) {
  const std::unique_lock lock(mutex, std::try_to_lock);
  return lock && worlds != nullptr && find(world) != worlds->end();
}

/// The worlds that have plans of this process which it has not left, with those alone.
std::vector<PlannedWorld> take_own() {
  std::vector<PlannedWorld> own;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || worlds == nullptr) return own;
  for (PlannedWorld& each : *worlds) {
    if (each.own.empty()) continue;
    PlannedWorld& taken = own.emplace_back(PlannedWorld{each.world, {}, {}});
    for (const PlanKey& key : each.own) taken.plans.emplace(key, each.plans.at(key));
    each.own.clear();
  }
  return own;
}

std::vector<std::string> lines_of(const std::vector<PlannedWorld>& all, std::string_view build) {
  std::vector<std::string> lines;
  for (const PlannedWorld& each : all) {
    for (const auto& [key, plan] : each.plans) {
      if (const auto mark = plan_mark(each.world, key.spec, build))
        lines.push_back(plan_line(*mark, key, plan));
    }
  }
  return lines;
}

constexpr std::size_t kLargestPlanFile = 1 << 20;

/// "" where there is no file yet.
Result<std::string> read_plan_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::string();
  const bool is_file = status.type() == std::filesystem::file_type::regular;
  if (is_file) {
    COLL_ASSIGN(std::string text, read_file(path, kLargestPlanFile));
    if (may_hold_plans(text)) return text;
  }
  return failed(Code::invalid_argument, path + " is no file of plans",
                "COLL_PLANS names a file that the library may replace");
}

const PlanFile& process_plan_file() {
  return made_once([] { return plan_file_of(knobs().plans); });
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
  PlannedWorld& of = planned(world);
  if (of.plans.emplace(key, plan).second) of.own.push_back(key);
}

PlanFile plan_file_of(std::string_view knob) {
  PlanFile file{.path = knob == "none" ? "" : std::string(knob), .build = build_id()};
  if (knob == "auto") file.path = cache_folder();
  if (knob == "auto" && !file.path.empty()) file.path += "/plans";
  if (file.build.empty() || getauxval(AT_SECURE) != 0) file.path.clear();
  return file;
}

void recall_plans(const World& world, const PlanFile& file) {
  const CollectiveSpec any{Collective::all_reduce, world.layout.ranks()};
  if (file.path.empty() || knows(world) || !plan_mark(world, any, file.build)) return;
  const Result<std::string> text = read_plan_file(file.path);
  if (!text.ok()) log(LogLevel::info, "plans are made anew: " + text.status().text());
  std::map<PlanKey, Plan> plans;
  if (text.ok()) plans = read_plans(*text, file.build, world);
  if (log_enabled(LogLevel::debug))
    log(LogLevel::debug, std::to_string(plans.size()) + " plans from " + file.path);
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) planned(world).plans.merge(plans);
}

Status leave_plans(const PlanFile& file) {
  if (file.path.empty()) return {};
  const std::vector<std::string> lines = lines_of(take_own(), file.build);
  if (lines.empty()) return {};
  COLL_ASSIGN(const std::string text, read_plan_file(file.path));
  COLL_TRY(make_folder(std::filesystem::path(file.path).parent_path()).with_context(file.path));
  return replace_file(file.path, add_plans(text, lines));
}

void recall_plans(const World& world) noexcept try {
  recall_plans(world, process_plan_file());
} catch (const std::exception&) {  // no memory
}

void leave_plans() noexcept try {
  const Status left = leave_plans(process_plan_file());
  if (!left.ok()) log(LogLevel::info, "later processes plan anew: " + left.text());
} catch (const std::exception&) {  // no memory
}

}  // namespace coll
