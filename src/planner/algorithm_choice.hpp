// SPDX-License-Identifier: Apache-2.0
// The algorithm that a user forces with COLL_ALGORITHM.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "collectives/algorithms.hpp"
#include "planner/recipe.hpp"

namespace coll {

/// Checks the text of COLL_ALGORITHM: a comma list of [OPERATION=]NAME[/LANESxSLICE][@SIZES], where
/// SIZES is 64K-1M, -64K, 1M- or 64K, both ends included. An unknown name or operation is an error
/// that lists the known ones.
Status check_algorithm_knob(std::string_view text);

/// The names of all algorithms, each after a space, for messages.
std::string algorithm_names();

/// The recipe that the knob's text forces for an operation and size class, if any. All calls of a
/// size class count as 2^size_class bytes. An entry for the operation beats an entry for all
/// operations, then an entry with sizes beats one without, then the later entry wins. An entry for
/// all operations applies only where its algorithm supports this operation. An entry for this
/// operation is returned even if its algorithm does not, unless it is only the operation's unequal
/// blocks that the algorithm does not have.
std::optional<Recipe> forced_recipe(std::string_view text, const CollectiveSpec& spec,
                                    const Layout& layout, std::uint32_t size_class);

}  // namespace coll
