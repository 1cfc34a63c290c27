// SPDX-License-Identifier: Apache-2.0
// A communicator of the same ranks as another one.
#pragma once
#include <optional>

#include "communicator/split.hpp"

namespace coll {

/// Collective: a part of all ranks in their order. Where `equal` on all ranks, they tell each other
/// everything in one all_gather; else they split, with `wish`.
///
/// `equal`: this rank keeps the paths and settings of the old communicator, and has no GPU.
Result<std::optional<Part>> duplicate(Communicator& parent, const Result<SplitWish>& wish,
                                      const PartJoining& how, bool equal);

}  // namespace coll
