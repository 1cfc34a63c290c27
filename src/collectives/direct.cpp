// SPDX-License-Identifier: Apache-2.0
// One message from one rank to another.
//
// Algorithm: direct
// Idea: one rank sends, the other receives; spec.root names the peer.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   send | 1 | 1 | 1 | 0 | 0 | 0 | 1 | 1
//   recv | 1 | 1 | 0 | 1 | 0 | 0 | 1 | 1
// Wins: always: a pair has no other algorithm.
// Source: none.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace direct {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, send, recv);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const bool sends = spec.collective == send;
  return {.rounds = 1,
          .sent = sends ? 1.0 : 0.0,
          .received = sends ? 0.0 : 1.0,
          .steps = 1,
          .peers = 1};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("direct", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  if (spec.collective == send) {
    lane.send(input(0), spec.root);
  } else {
    lane.receive(spec.root, output(0));
  }
  return schedule;
}

}  // namespace
}  // namespace direct

constinit const Algorithm kDirect{"direct", "one message between two ranks", direct::supports,
                                  direct::cost, direct::build};

}  // namespace coll
