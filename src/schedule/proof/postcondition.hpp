// SPDX-License-Identifier: Apache-2.0
// The post-conditions: what each operation promises.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/proof/symbolic_run.hpp"

namespace coll {

/// The required content of an output chunk: chunk `chunk` of the input of `source`, or, if source
/// is kNoRank, the finished reduction of that chunk over all ranks.
struct Wanted {
  Rank source = kNoRank;
  std::uint32_t chunk = 0;
};
/// The required content of output chunk `chunk` of `rank`. For recv, spec.root is the sender.
Wanted wanted_in(const CollectiveSpec& spec, std::uint32_t parts, Rank rank, std::uint32_t chunk);

/// The sum of chunk `chunk` of `ranks` ranks' inputs in the order of the tree.
Content tree_sum(Contributions& contributions, std::uint32_t pass, std::uint32_t chunk, Rank ranks);

/// Checks that after each pass all ranks hold what the operation promises, combined in the order
/// that the spec demands. The failure names the rank, the chunk, and each contribution that is
/// missing, foreign or counted more than once. After a barrier every rank must have heard from
/// every other rank, directly or indirectly.
Status check_postcondition(std::span<const Schedule> schedules, const SymbolicRun& run,
                           Contributions& contributions);

/// Whether all ranks get the same bits, however the reduction rounds.
bool same_order_everywhere(std::span<const Schedule> schedules, const SymbolicRun& run);

}  // namespace coll
