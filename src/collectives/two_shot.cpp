// SPDX-License-Identifier: Apache-2.0
// Two rounds: chunks of the data to everyone, then from everyone.
//
// Algorithm: two_shot
// Idea: all_reduce: every rank receives its chunk from all ranks, sums it, and sends the sum to
//   all. broadcast: the root sends every other rank a chunk, and each forwards it to the others.
//   reduce: every rank but the root sums one chunk of all ranks and sends it to the root.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce | 4*n-5           | 2           | all | all | (n-1)/n | 0    | 1 | n-1
//   broadcast  | max(n-1, 2*n-4) | min(2, n-1) | 1   | 1   | 0       | 0    | 1 | n-1
//   reduce     | 2*n-2           | 2           | 1   | 1   | 1       | kept | 1 | n-1
//   where all = 2*(n-1)/n; kept = n-1 if n > 2 else 0
// Wins: medium and large messages of few ranks that share memory: a ring's bytes in two rounds.
// Source: the two-shot all-reduce of MSCCL++ (Shah et al. 2025), vLLM and TensorRT-LLM; broadcast:
//   Barnett et al.: Interprocessor collective communication library (SHPCC 1994), with direct
//   exchange.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace two_shot {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, broadcast, reduce);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  Cost cost{.rounds = 2, .sent = 1, .received = 1, .peers = others, .chunks = others};
  switch (spec.collective) {
    case all_reduce:
      cost.sent = cost.received = 2 * (n - 1) / n;
      cost.chunks = others + 1;
      cost.reduced = (n - 1) / n;
      cost.steps = 4 * others - 1;
      break;
    case broadcast:
      cost.rounds = others == 1 ? 1 : 2;
      cost.steps = others == 1 ? 1 : std::max(others, 2 * others - 2);
      break;
    default:
      cost.reduced = 1;
      cost.steps = 2 * others;
      cost.scratch_chunks = others == 1 ? 0 : others;
      break;
  }
  return cost;
}

void build_all_reduce(Rank n, Rank rank, LaneBuilder lane) {
  const auto own = index_of(rank);
  const auto peer = [&](Rank distance) { return wrapped(rank + distance, n); };
  const auto sum = [&](Rank summed) { return summed == 1 ? input(own) : output(own); };
  lane.repeat(1, n, [&](Rank i) { lane.send(input(index_of(peer(i))), peer(i)); });
  lane.repeat(1, n - 1, [&](Rank i) { lane.receive_reduce(peer(-i), sum(i), output(own)); });
  lane.receive_reduce_copy_send(peer(1), sum(n - 1), output(own), peer(1)).finish = true;
  lane.repeat(2, n, [&](Rank i) { lane.send(output(own), peer(i)); });
  lane.repeat(1, n, [&](Rank i) { lane.receive(peer(-i), output(index_of(peer(-i)))); });
}

/// The ranks but the root, as owners of chunks.
struct Owners {
  Rank ranks, root;
  [[nodiscard]] Rank count() const { return ranks - 1; }
  [[nodiscard]] Rank rank(Rank chunk) const { return wrapped(root + 1 + chunk, ranks); }
  [[nodiscard]] Rank chunk(Rank rank) const { return wrapped(rank - root - 1, ranks); }
};

void build_broadcast(const Owners& owners, Rank rank, LaneBuilder lane) {
  const Rank chunks = owners.count();
  if (rank == owners.root) {
    lane.repeat(0, chunks, [&](Rank chunk) {
      lane.copy_send(input(index_of(chunk)), output(index_of(chunk)), owners.rank(chunk));
    });
    return;
  }
  const Rank own = owners.chunk(rank);
  const auto other = [&](Rank distance) { return wrapped(own + distance, chunks); };
  Step& first = lane.receive(owners.root, output(index_of(own)));
  if (chunks > 1) first.target = owners.rank(other(1));
  lane.repeat(2, chunks, [&](Rank i) { lane.send(output(index_of(own)), owners.rank(other(i))); });
  lane.repeat(1, chunks,
              [&](Rank i) { lane.receive(owners.rank(other(-i)), output(index_of(other(-i)))); });
}

void build_reduce(const Owners& owners, Rank rank, LaneBuilder lane) {
  const Rank chunks = owners.count();
  const bool at_root = rank == owners.root;
  const Rank own = at_root ? -1 : owners.chunk(rank);
  lane.repeat(1, at_root ? chunks + 1 : chunks, [&](Rank i) {
    const Rank chunk = wrapped(own + i, chunks);
    lane.send(input(index_of(chunk)), owners.rank(chunk));
  });
  if (at_root) {
    lane.repeat(0, chunks,
                [&](Rank chunk) { lane.receive(owners.rank(chunk), output(index_of(chunk))); });
    return;
  }
  const auto sum = [&](Rank summed) {
    return summed == 1 ? input(index_of(own)) : scratch(index_of(own));
  };
  lane.repeat(1, chunks, [&](Rank i) {
    lane.receive_reduce(owners.rank(wrapped(own - i, chunks)), sum(i), scratch(index_of(own)));
  });
  lane.receive_reduce_send(owners.root, sum(chunks), owners.root).finish = true;
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const Owners owners{n, spec.root};
  const Rank parts = spec.collective == all_reduce ? n : owners.count();
  Schedule schedule = start_schedule("two_shot", spec, rank, index_of(parts));
  LaneBuilder lane(schedule.lanes[0]);
  switch (spec.collective) {
    case all_reduce:
      build_all_reduce(n, rank, lane);
      break;
    case broadcast:
      build_broadcast(owners, rank, lane);
      break;
    default:
      // A scratch chunk stands for the part of its number: only the own one is used.
      if (rank != spec.root && n > 2) schedule.scratch_chunks = index_of(owners.chunk(rank)) + 1;
      build_reduce(owners, rank, lane);
      break;
  }
  return schedule;
}

}  // namespace
}  // namespace two_shot

constinit const Algorithm kTwoShot{
    "two_shot",
    "larger messages, few ranks on fast paths: a ring's bytes in two "
    "rounds",
    two_shot::supports, two_shot::cost, two_shot::build};

}  // namespace coll
