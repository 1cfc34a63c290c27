// SPDX-License-Identifier: Apache-2.0
// The pipelined chain: each rank forwards what it receives.
//
// Algorithm: chain
// Idea: the ranks stand in line behind the root, in the order of the layout's line. Passes of the
//   data follow each other down the line (broadcast), or up it, summed on the way (reduce).
//   all_reduce goes up to the line's first rank and down again, on two lanes, so that the way up
//   does not wait for the way down.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   broadcast  | 1 | n-1     | 1           | 1           | 0 | 0 | 1 | min(2, n-1)
//   reduce     | 1 | n-1     | 1           | 1           | 1 | 0 | 1 | min(2, n-1)
//   all_reduce | 2 | 2*(n-1) | min(2, n-1) | min(2, n-1) | 1 | 0 | 1 | 2*min(2, n-1)
// Wins: large messages and few ranks: each rank sends and receives every byte once.
// Source: Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations (Cluster
//   Computing 2007), section 3.1, "chain".
#include "collectives/patterns.hpp"
#include "collectives/ring_order.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace chain {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, broadcast, reduce, all_reduce);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const bool both = spec.collective == all_reduce;
  const Rank neighbours = spec.ranks == 2 ? 1 : 2;
  return {.rounds = (both ? 2.0 : 1.0) * (spec.ranks - 1),
          .sent = both ? neighbours : 1.0,
          .received = both ? neighbours : 1.0,
          .reduced = spec.collective == broadcast ? 0.0 : 1.0,
          .steps = both ? 2U : 1U,
          .peers = index_of(both ? 2 * neighbours : neighbours)};
}

Schedule build(const CollectiveSpec& spec, const Layout& layout, Rank rank) {
  const bool both = spec.collective == all_reduce;
  const RingOrder order(layout.line, both ? layout.line.front() : spec.root);
  const Rank place = order.place_of(rank);
  const Rank up = order.rank_at(place - 1);
  const Rank down = order.rank_at(place + 1);
  const bool first = place == 0;
  const bool last = place == spec.ranks - 1;

  Schedule schedule = start_schedule("chain", spec, rank, 1, both ? 2 : 1);
  if (spec.collective != broadcast) {
    LaneBuilder lane(schedule.lanes.front());
    if (first) {
      lane.receive_reduce(down, input(0), output(0)).finish = true;
    } else if (last) {
      lane.send(input(0), up);
    } else {
      lane.receive_reduce_send(down, input(0), up);
    }
  }
  if (spec.collective != reduce) {
    LaneBuilder lane(schedule.lanes.back());
    Step& step = first
                     ? both ? lane.send(output(0), down) : lane.copy_send(input(0), output(0), down)
                 : last ? lane.receive(up, output(0))
                        : lane.receive_send(up, output(0), down);
    if (both) {  // in place, the way down overwrites what the way up reads
      step.wait_lane = 0;
      step.wait_step = 0;
    }
  }
  return schedule;
}

}  // namespace
}  // namespace chain

constinit const Algorithm kChain{"chain",
                                 "large messages, few ranks: each byte passes each rank once",
                                 chain::supports, chain::cost, chain::build};

}  // namespace coll
