// SPDX-License-Identifier: Apache-2.0
// Small correct schedules of every shape, written apart from the library's own algorithms.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace coll::samples {

using Set = std::vector<Schedule>;  ///< [rank]

/// Changes a lane as the list of its steps: change(steps).
template <class Change>
void change(Lane& lane, Change change) {
  std::vector<Step> steps(lane.begin(), lane.end());
  change(steps);
  lane = Lane(std::move(steps));
}

Set ring_all_reduce(Rank ranks);
/// Two lanes, each a ring over its own half; lane 1 turns the other way.
Set two_ring_all_reduce(Rank ranks);
/// Exchange of whole buffers at distances 1, 2, 4…; a power of two ranks.
Set recursive_doubling_all_reduce(Rank ranks);
Set ring_reduce_scatter(Rank ranks);
Set ring_all_gather(Rank ranks);
/// Binomial tree, `parts` chunks in one message.
Set tree_broadcast(Rank ranks, Rank root, std::uint32_t parts);
/// One lane receives, the other sends on; waits tie them together.
Set two_lane_chain_broadcast(Rank ranks, Rank root, std::uint32_t parts);
/// All to the root, half of them on each lane; a wait before the halves are put together.
Set two_lane_star_reduce(Rank ranks, Rank root);
Set linear_all_to_all(Rank ranks, std::uint32_t parts);
Set linear_gather(Rank ranks, Rank root);
Set linear_scatter(Rank ranks, Rank root);
Set pair(Rank ranks, Rank sender, Rank receiver);
Set dissemination_barrier(Rank ranks);
/// All of them, at a few small sizes, with a name each.
struct Named {
  std::string name;
  Set set;
};
std::vector<Named> all();

}  // namespace coll::samples
