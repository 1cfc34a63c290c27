// SPDX-License-Identifier: Apache-2.0
// The dissemination barrier: log2(n) rounds without a root.
//
// Algorithm: dissemination
// Idea: in round k rank r signals rank r + 2^k and awaits rank r - 2^k. After L rounds every rank
//   has heard of every rank. The step that awaits a signal also sends the next one.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   barrier | L+1 | L | 0 | 0 | 0 | 0 | 1 | near
// Wins: barriers of any number of ranks: the fewest rounds, and no ranks to fold.
// Source: Hensgen, Finkel, Manber: Two algorithms for barrier synchronization
//   (International Journal of Parallel Programming 1988).
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace dissemination {
namespace {

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && spec.collective == Collective::barrier;
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank rounds = ceil_log2(spec.ranks);
  return {.rounds = static_cast<double>(rounds),
          .steps = index_of(rounds) + 1,
          .peers = power_of_two_neighbours(spec.ranks)};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  Schedule schedule = start_schedule("dissemination", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  lane.signal(wrapped(rank + 1, n));
  for (Rank distance = 1; distance < n; distance *= 2) {
    Step& step = lane.await(wrapped(rank - distance, n));
    if (2 * distance < n) step.target = wrapped(rank + 2 * distance, n);
  }
  return schedule;
}

}  // namespace
}  // namespace dissemination

constinit const Algorithm kDissemination{"dissemination", "barriers: fewest rounds for any ranks",
                                         dissemination::supports, dissemination::cost,
                                         dissemination::build};

}  // namespace coll
