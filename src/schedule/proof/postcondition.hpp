// SPDX-License-Identifier: Apache-2.0
// What each operation promises.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/proof/symbolic_run.hpp"

namespace coll {

/// What one output chunk must hold: chunk `chunk` of the input of `source`, or the finished
/// reduction of that chunk over all ranks (source = kNoRank).
struct Wanted {
  Rank source = kNoRank;
  std::uint32_t chunk = 0;
};
/// Of an output chunk of `rank`; for recv, spec.root is the sender.
Wanted wanted_in(const CollectiveSpec& spec, std::uint32_t parts, Rank rank, std::uint32_t chunk);

/// Do all ranks hold what the operation promises, after each pass? The failure names the rank, the
/// chunk, and each contribution that is missing, foreign or counted more than once. After a
/// barrier every rank has, directly or not, heard from every other.
Status check_postcondition(std::span<const Schedule> schedules, const SymbolicRun& run,
                           const Contributions& contributions);

/// Have all ranks the same bits, whatever the reduction's rounding?
bool same_order_everywhere(std::span<const Schedule> schedules, const SymbolicRun& run);

}  // namespace coll
