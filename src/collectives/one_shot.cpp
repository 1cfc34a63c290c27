// SPDX-License-Identifier: Apache-2.0
// One round: every rank sends everything that the others need directly to them.
//
// Algorithm: one_shot
// Idea: every rank sends to each other rank directly what that rank needs (all_reduce: its whole
//   input), and then receives what it needs itself. Every rank sums in rank order, so all have the
//   same bits. Ranks from 2 on keep the sum of the ranks before them in scratch until their own
//   turn.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce     | 2*(n-1) + (n > 2) | 1 | n-1     | n-1     | n-1     | n > 2 | 1 | n-1
//   reduce_scatter | 2*(n-1)           | 1 | (n-1)/n | (n-1)/n | (n-1)/n | 0     | 1 | n-1
//   all_gather     | 2*(n-1)           | 1 | (n-1)/n | (n-1)/n | 0       | 0     | 1 | n-1
//   barrier        | 2*(n-1)           | 1 | 0       | 0       | 0       | 0     | 1 | n-1
// Wins: small messages of few ranks that share memory: the time of one message in all. all_gather
//   and reduce_scatter also with large messages, if every pair of ranks has a fast path of its own.
// Source: "allpairs" of MSCCL++ (Shah et al. 2025) and the one-shot all-reduce of vLLM and
//   TensorRT-LLM; Thakur, Rabenseifner, Gropp (IJHPCA 2005), sections 4.1 and 4.4, for blocks.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace one_shot {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 &&
         one_of(spec.collective, all_reduce, reduce_scatter, all_gather, barrier);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  Cost cost{.rounds = 1, .sent = (n - 1) / n, .steps = 2 * others, .peers = others};
  if (spec.collective == barrier) cost.sent = 0;
  if (spec.collective == reduce_scatter) cost.reduced = (n - 1) / n;
  if (spec.collective == all_reduce) {
    cost.sent = cost.reduced = n - 1;
    if (others > 1) cost.scratch_chunks = 1;
    if (others > 1) ++cost.steps;
  }
  cost.received = cost.sent;
  if (one_of(spec.collective, reduce_scatter, all_gather)) cost.chunks = others + 1;
  return cost;
}

/// output := the sum in the order of ranks, x0 + x1 being x1 + x0.
void sum_all(Rank n, Rank rank, LaneBuilder lane) {
  const Operand sum = output(0);
  if (rank >= 2) {  // what comes before the own input must not yet overwrite it
    const Operand before = scratch(0);
    lane.receive(0, before);
    lane.repeat(1, rank, [&](Rank other) { lane.receive_reduce(other, before, before); });
    lane.reduce(before, input(0), sum).finish = rank == n - 1;
  } else {
    lane.receive_reduce(1 - rank, input(0), sum).finish = n == 2;
  }
  lane.repeat(rank < 2 ? 2 : rank + 1, n,
              [&](Rank other) { lane.receive_reduce(other, sum, sum).finish = other == n - 1; });
}

void sum_block(Rank n, Rank rank, LaneBuilder lane) {
  const Rank first = rank == 0 ? 1 : 0;
  const Rank last = rank == n - 1 ? n - 2 : n - 1;
  const auto add = [&](Rank other) {
    const Operand sum = other == first ? input(index_of(rank)) : output(0);
    lane.receive_reduce(other, sum, output(0)).finish = other == last;
  };
  lane.repeat(0, rank, add);
  lane.repeat(rank + 1, n, add);
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const Collective collective = spec.collective;
  Schedule schedule = start_schedule("one_shot", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  lane.repeat(1, n, [&](Rank i) {
    const Rank to = wrapped(rank + i, n);
    if (collective == barrier) {
      lane.signal(to);
    } else if (collective == all_gather && i == 1) {
      lane.copy_send(input(0), output(index_of(rank)), to);
    } else {
      lane.send(input(collective == reduce_scatter ? index_of(to) : 0), to);
    }
  });
  if (collective == all_reduce) {
    if (rank >= 2) schedule.scratch_chunks = 1;
    sum_all(n, rank, lane);
  } else if (collective == reduce_scatter) {
    sum_block(n, rank, lane);
  } else {
    lane.repeat(1, n, [&](Rank i) {
      const Rank from = wrapped(rank - i, n);
      if (collective == barrier) {
        lane.await(from);
      } else {
        lane.receive(from, output(index_of(from)));
      }
    });
  }
  return schedule;
}

}  // namespace
}  // namespace one_shot

constinit const Algorithm kOneShot{
    "one_shot",         "small messages, few ranks on fast paths: one round",
    one_shot::supports, one_shot::cost,
    one_shot::build,    true};

}  // namespace coll
