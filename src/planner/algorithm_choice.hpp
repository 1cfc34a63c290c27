// SPDX-License-Identifier: Apache-2.0
// What a user demands with COLL_ALGORITHM.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "collectives/algorithms.hpp"
#include "planner/recipe.hpp"

namespace coll {

/// Checks COLL_ALGORITHM: a comma list of [OPERATION=]NAME[/LANESxSLICE][@SIZES], where SIZES is
/// 64K-1M, -64K, 1M- or 64K, both ends included. Unknown names and operations are errors that list
/// the known ones.
Status check_algorithm_knob(std::string_view text);

/// All that there are, each behind a space, for messages.
std::string algorithm_names();

/// What the knob's text asks for, if anything: calls up to 2^size_class bytes go by that size. One
/// named for the operation wins over one for all, then one for sizes over one for any, then the
/// last. A name for all operations counts only where it can do this one; one for this operation is
/// returned even if it cannot.
std::optional<Recipe> forced_recipe(std::string_view text, const CollectiveSpec& spec,
                                    const Layout& layout, std::uint32_t size_class);

}  // namespace coll
