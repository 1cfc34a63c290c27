// SPDX-License-Identifier: Apache-2.0
// The text in which a process leaves its plans to later ones.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan.hpp"
#include "planner/world.hpp"

namespace coll {

/// All that a plan for this operation depends on, hashed: the world and `build`, the library's
/// code. Nothing where no plan is kept: a knob, a tuning table or a network of its own decides
/// there, or the closed formula, in less time than it takes to read a file.
std::optional<std::uint64_t> plan_mark(const World& world, const CollectiveSpec& spec,
                                       std::string_view build);

/// A plan as a line, after its mark.
std::string plan_line(std::uint64_t mark, const PlanKey& key, const Plan& plan);

/// The plans of this build for this world among the lines of a text. Of two for the same calls the
/// later counts. It skips lines that are damaged or make no sense.
std::map<PlanKey, Plan> read_plans(std::string_view text, std::string_view build,
                                   const World& world);

/// Is the text one of plans, of whatever version, or empty?
bool may_hold_plans(std::string_view text);

/// A text with the lines of `text`, then those of `more` that are not among them. The oldest are
/// dropped where they are more than kMostKeptPlans.
std::string add_plans(std::string_view text, const std::vector<std::string>& more);
/// To read so many takes 0.13 to 0.28 ms (EPYC, Zen 3). A program has some dozens.
inline constexpr std::size_t kMostKeptPlans = 512;

}  // namespace coll
