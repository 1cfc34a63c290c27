// SPDX-License-Identifier: Apache-2.0
// Pairwise exchange: in round k with the ranks at distance k.
//
// Algorithm: pairwise
// Idea: there are n-1 rounds. In round i every rank sends to the rank i after it and receives from
//   the rank i before it. So at any time each rank has one outgoing and one incoming message.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_to_all     | 2*n-1   | n-1 | (n-1)/n | (n-1)/n | 0       | 0 | 1 | n-1
//   reduce_scatter | 2*(n-1) | n-1 | (n-1)/n | (n-1)/n | (n-1)/n | 0 | 1 | n-1
// Wins: large blocks over links that congest if many ranks send to one.
// Source: Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH
//   (IJHPCA 2005), sections 4.3 and 4.4.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace pairwise {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_to_all, reduce_scatter);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  const bool sums = spec.collective == reduce_scatter;
  return {.rounds = n - 1,
          .sent = (n - 1) / n,
          .received = (n - 1) / n,
          .reduced = sums ? (n - 1) / n : 0,
          .steps = sums ? 2 * others : 2 * others + 1,
          .peers = others,
          .chunks = others + 1};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const auto own = index_of(rank);
  Schedule schedule = start_schedule("pairwise", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  lane.repeat(1, n, [&](Rank i) {
    const Rank to = wrapped(rank + i, n);
    const Rank from = wrapped(rank - i, n);
    lane.send(input(index_of(to)), to);
    if (spec.collective == all_to_all) {
      lane.receive(from, output(index_of(from)));
    } else {
      const Operand sum = i == 1 ? input(own) : output(0);
      lane.receive_reduce(from, sum, output(0)).finish = i == n - 1;
    }
  });
  if (spec.collective == all_to_all) lane.copy(input(own), output(own));
  return schedule;
}

}  // namespace
}  // namespace pairwise

constinit const Algorithm kPairwise{
    "pairwise",         "large blocks where senders to one rank would congest its link",
    pairwise::supports, pairwise::cost,
    pairwise::build,    true};

}  // namespace coll
