// SPDX-License-Identifier: Apache-2.0
// The ring: every rank talks only to its two neighbours.
//
// Algorithm: ring
// Idea: the ranks form a ring in the layout's order, in which each host's ranks are consecutive,
//   and talk only to their neighbours. Chunk c starts behind rank c and goes once around. Every
//   rank adds its part, until rank c completes the chunk. Then the result goes around. If the
//   layout has several rings, each moves its part of the data on a lane of its own. The costs are
//   those of one ring.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce     | 2*n-1 | 2*(n-1) | 2*(n-1)/n | 2*(n-1)/n | (n-1)/n | 0 | 1 | min(2, n-1)
//   reduce_scatter | n     | n-1     | (n-1)/n   | (n-1)/n   | (n-1)/n | 0 | 1 | min(2, n-1)
//   all_gather     | n     | n-1     | (n-1)/n   | (n-1)/n   | 0       | 0 | 1 | min(2, n-1)
// Wins: large messages over links that carry one peer at a time: the fewest bytes, two connections.
// Source: Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations
//   (JPDC 2009), section 3; all-gather: Thakur, Rabenseifner, Gropp: Optimization of collective
//   communication operations in MPICH (IJHPCA 2005), section 4.1.
#include <algorithm>
#include <vector>

#include "collectives/patterns.hpp"
#include "collectives/ring_order.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace ring {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, reduce_scatter, all_gather);
}

Cost cost(const CollectiveSpec& spec, const Layout& layout) {
  const double n = spec.ranks;
  const double laps = spec.collective == all_reduce ? 2 : 1;
  const auto rings = static_cast<std::uint32_t>(layout.rings.size());
  const std::uint32_t around = index_of(spec.ranks);
  return {.rounds = laps * (n - 1),
          .sent = laps * (n - 1) / n,
          .received = laps * (n - 1) / n,
          .reduced = spec.collective == all_gather ? 0 : (n - 1) / n,
          .steps = rings * (spec.collective == all_reduce ? 2 * around - 1 : around),
          .peers = rings * (spec.ranks == 2 ? 1U : 2U),
          .chunks = rings * around};
}

/// The lane of one of `rings` rings.
void go_around(const std::vector<Rank>& ring, std::uint32_t number, std::uint32_t rings,
               Schedule& schedule) {
  const Collective collective = schedule.spec.collective;
  const auto n = static_cast<Rank>(ring.size());
  const Rank rank = schedule.rank;
  const RingOrder order(ring, ring.front());
  const Rank place = order.place_of(rank);
  const auto behind = [&](Rank distance) { return order.rank_at(place - distance); };
  // all_reduce cuts the data into a chunk for each place in each ring, the others have blocks.
  const auto chunk = [&](Rank distance) {
    return collective == all_reduce ? number * index_of(n) + index_of(wrapped(place - distance, n))
                                    : index_of(behind(distance)) * rings + number;
  };
  const Rank left = behind(1);
  const Rank right = behind(-1);
  const auto own = chunk(0);
  LaneBuilder lane(schedule.lanes[number]);
  const bool in_order = collective == all_reduce || std::ranges::is_sorted(ring);
  const auto repeat = [&](Rank first, Rank end, const auto& step) {
    if (in_order) return lane.repeat(first, end, step);
    for (Rank k = first; k < end; ++k) step(k);
  };

  if (collective != all_gather) {
    lane.send(input(chunk(1)), right);
    repeat(2, n, [&](Rank k) { lane.receive_reduce_send(left, input(chunk(k)), right); });
  }
  if (collective == reduce_scatter) {
    lane.receive_reduce(left, input(own), output(number)).finish = true;
    return;
  }
  if (collective == all_reduce) {
    lane.receive_reduce_copy_send(left, input(own), output(own), right).finish = true;
  } else {
    lane.copy_send(input(number), output(own), right);
  }
  repeat(1, n - 1, [&](Rank k) { lane.receive_send(left, output(chunk(k)), right); });
  lane.receive(left, output(chunk(n - 1)));
}

Schedule build(const CollectiveSpec& spec, const Layout& layout, Rank rank) {
  const auto rings = static_cast<std::uint32_t>(layout.rings.size());
  const std::uint32_t parts = spec.collective == all_reduce ? rings * index_of(spec.ranks) : rings;
  Schedule schedule = start_schedule("ring", spec, rank, parts, rings);
  for (std::uint32_t number = 0; number < rings; ++number) {
    go_around(layout.rings[number], number, rings, schedule);
  }
  return schedule;
}

}  // namespace
}  // namespace ring

constinit const Algorithm kRing{
    "ring",         "large messages, few links: least bytes, two connections",
    ring::supports, ring::cost,
    ring::build,    true};

}  // namespace coll
