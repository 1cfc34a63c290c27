// SPDX-License-Identifier: Apache-2.0
// A list of ranks for a person.
#pragma once
#include <string>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// "rank 3", "ranks 0-2", "ranks 0-2, 5, 7-9"; at most a dozen ranges, then "… (37 ranks)".
/// `ranks` ascend.
std::string ranks_text(const std::vector<Rank>& ranks);
/// The ranks whose entry is true.
std::vector<Rank> ranks_where(const std::vector<bool>& by_rank);

}  // namespace coll
