// SPDX-License-Identifier: Apache-2.0
// The flat patterns: one message per pair of ranks that exchange data.
//
// Algorithm: linear
// Idea: the root itself sends to, or receives from, every other rank. In all_to_all every rank
//   sends all its messages, first the one to the next rank, and then receives the others' messages.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   broadcast  | n-1   | 1 | n-1     | 1       | 0   | 0 | 1 | n-1
//   reduce     | n-1   | 1 | 1       | n-1     | n-1 | 0 | 1 | n-1
//   gather     | n     | 1 | 1/n     | (n-1)/n | 0   | 0 | 1 | n-1
//   scatter    | n     | 1 | (n-1)/n | 1/n     | 0   | 0 | 1 | n-1
//   all_to_all | 2*n-1 | 1 | (n-1)/n | (n-1)/n | 0   | 0 | 1 | n-1
// Wins: gather and scatter of large blocks, because no tree reduces the root's bytes; all_to_all if
//   all ranks share memory; two ranks.
// Source: Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations (Cluster
//   Computing 2007), section 3.1, "flat tree"; Thakur, Rabenseifner, Gropp (IJHPCA 2005),
//   section 4.3.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace linear {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, broadcast, reduce, gather, scatter, all_to_all);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  Cost cost{.rounds = 1,
            .sent = (n - 1) / n,
            .received = (n - 1) / n,
            .steps = others + 1,
            .peers = others,
            .chunks = others + 1};
  if (spec.collective == broadcast) {
    cost.sent = n - 1;
    cost.received = 1;
  }
  if (spec.collective == reduce) {
    cost.sent = 1;
    cost.received = cost.reduced = n - 1;
  }
  if (spec.collective == gather) cost.sent = 1 / n;
  if (spec.collective == scatter) cost.received = 1 / n;
  if (one_of(spec.collective, broadcast, reduce)) {
    cost.steps = others;
    cost.chunks = 1;
  }
  if (spec.collective == all_to_all) cost.steps = 2 * others + 1;
  return cost;
}

void build_root(const CollectiveSpec& spec, LaneBuilder lane) {
  const Rank n = spec.ranks;
  const std::uint32_t own = index_of(spec.root);
  if (spec.collective == gather) lane.copy(input(0), output(own));
  lane.repeat(1, n, [&](Rank i) {
    const Rank peer = wrapped(spec.root + i, n);
    const std::uint32_t block = index_of(peer);
    if (spec.collective == broadcast && i == 1) {
      lane.copy_send(input(0), output(0), peer);
    } else if (spec.collective == broadcast) {
      lane.send(output(0), peer);
    } else if (spec.collective == reduce) {
      const Operand sum = i == 1 ? input(0) : output(0);
      lane.receive_reduce(peer, sum, output(0)).finish = i == n - 1;
    } else if (spec.collective == gather) {
      lane.receive(peer, output(block));
    } else {
      lane.send(input(block), peer);
    }
  });
  if (spec.collective == scatter) lane.copy(input(own), output(0));
}

void build_all_to_all(Rank n, Rank rank, LaneBuilder lane) {
  lane.repeat(1, n, [&](Rank i) {
    const Rank to = wrapped(rank + i, n);
    lane.send(input(index_of(to)), to);
  });
  lane.copy(input(index_of(rank)), output(index_of(rank)));
  lane.repeat(1, n, [&](Rank i) {
    const Rank from = wrapped(rank - i, n);
    lane.receive(from, output(index_of(from)));
  });
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("linear", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  if (spec.collective == all_to_all) {
    build_all_to_all(spec.ranks, rank, lane);
  } else if (rank == spec.root) {
    build_root(spec, lane);
  } else if (one_of(spec.collective, broadcast, scatter)) {
    lane.receive(spec.root, output(0));
  } else {
    lane.send(input(0), spec.root);
  }
  return schedule;
}

}  // namespace
}  // namespace linear

constinit const Algorithm kLinear{"linear",         "large blocks of gather and scatter; few ranks",
                                  linear::supports, linear::cost,
                                  linear::build,    true};

}  // namespace coll
