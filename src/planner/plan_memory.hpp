// SPDX-License-Identifier: Apache-2.0
// The plans that this process has made, and those that earlier processes left to it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "planner/plan.hpp"
#include "planner/world.hpp"

namespace coll {

/// The cached plan for such calls in an equal world, if there is one. Planning takes milliseconds,
/// and many communicators of a process are alike. Plans for worlds with a network of their own
/// (World::network) and for worlds of over 1,024 ranks, where a formula decides in microseconds,
/// are not cached.
std::optional<Plan> remembered_plan(const World& world, const PlanKey& key);
/// Adds a plan to the cache.
void remember(const World& world, const PlanKey& key, const Plan& plan);

/// The file in which processes leave plans to later ones.
struct PlanFile {
  std::string path;   ///< empty: there is none
  std::string build;  ///< of the library: others' plans are no use
};
/// What COLL_PLANS says. No file for a build without an ID, nor for a program with more rights than
/// who runs it (AT_SECURE), who could name any file.
PlanFile plan_file_of(std::string_view knob);

/// Adds to the cache what the file has for a world, once for each world. Any process of the build
/// would make the same plans, so it does not matter which ranks find them there.
void recall_plans(const World& world, const PlanFile& file);
/// Adds to the file the plans that this process made since it last did so, as far as plans are kept
/// (plan_file.hpp). Fails if the file holds something else, or cannot be read or written.
Status leave_plans(const PlanFile& file);

/// The same with this process's file. Failures are logged; what fails costs only time.
void recall_plans(const World& world) noexcept;
void leave_plans() noexcept;

}  // namespace coll
