// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: the ring.
//
// Algorithm: ring
// Idea: rank r talks to r-1 and r+1 only. Chunk c starts at rank c+1 and goes once around, every
//   rank adding its part, until rank c completes it; then it goes around again as the result.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce     | 2*n-1 | 2*(n-1) | 2*(n-1)/n | 2*(n-1)/n | (n-1)/n | 0 | 1 | min(2, n-1)
//   reduce_scatter | n     | n-1     | (n-1)/n   | (n-1)/n   | (n-1)/n | 0 | 1 | min(2, n-1)
//   all_gather     | n     | n-1     | (n-1)/n   | (n-1)/n   | 0       | 0 | 1 | min(2, n-1)
// Wins: large messages over links that carry one peer at a time: the least bytes, two connections.
// Source: Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations
//   (JPDC 2009), section 3; all-gather: Thakur, Rabenseifner, Gropp: Optimization of collective
//   communication operations in MPICH (IJHPCA 2005), section 4.1.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, reduce_scatter, all_gather);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const double n = spec.ranks;
  const double laps = spec.collective == all_reduce ? 2 : 1;
  return {
      .rounds = laps * (n - 1),
      .sent = laps * (n - 1) / n,
      .received = laps * (n - 1) / n,
      .reduced = spec.collective == all_gather ? 0 : (n - 1) / n,
      .steps = spec.collective == all_reduce ? 2 * index_of(spec.ranks) - 1 : index_of(spec.ranks),
      .peers = spec.ranks == 2 ? 1U : 2U,
      .chunks = index_of(spec.ranks)};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const Rank left = wrapped(rank - 1, n);
  const Rank right = wrapped(rank + 1, n);
  const auto behind = [&](Rank distance) { return index_of(wrapped(rank - distance, n)); };
  const auto own = index_of(rank);

  Schedule schedule =
      start_schedule("ring", spec, rank, spec.collective == all_reduce ? index_of(n) : 1);
  LaneBuilder lane(schedule.lanes[0]);
  if (spec.collective != all_gather) {
    lane.send(input(behind(1)), right);
    lane.repeat(2, n, [&](Rank k) { lane.receive_reduce_send(left, input(behind(k)), right); });
  }
  if (spec.collective == reduce_scatter) {
    lane.receive_reduce(left, input(own), output(0)).finish = true;
    return schedule;
  }
  if (spec.collective == all_reduce) {
    lane.receive_reduce_copy_send(left, input(own), output(own), right).finish = true;
  } else {
    lane.copy_send(input(0), output(own), right);
  }
  lane.repeat(1, n - 1, [&](Rank k) { lane.receive_send(left, output(behind(k)), right); });
  lane.receive(left, output(behind(n - 1)));
  return schedule;
}

}  // namespace

constinit const Algorithm kRing{"ring", "large messages, few links: least bytes, two connections",
                                supports, cost, build};

}  // namespace coll
