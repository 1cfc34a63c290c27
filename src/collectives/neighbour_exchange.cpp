// SPDX-License-Identifier: Apache-2.0
// Neighbour exchange: n/2 rounds between pairs of neighbours.
//
// Algorithm: neighbour_exchange
// Idea: ranks 2q and 2q+1 are a pair and first exchange their blocks. From then on every rank
//   exchanges two blocks per round, in turns with the neighbour outside its pair and the one inside
//   it. It always sends the two blocks that it received last. From outside come the pairs behind
//   (even ranks) or ahead (odd ranks); from inside comes what the partner received from its side.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_gather | n//2 + two | n//2 | (n-1)/n | (n-1)/n | 0 | 0 | two | two
//   where two = min(2, n-1)
// Wins: medium blocks of an even number of ranks whose neighbours are near: a ring's bytes and two
//   connections in half the rounds.
// Source: Chen, Zhang, Zhang, Yuan, Zheng: Performance evaluation of allgather algorithms on
//   terascale Linux cluster with fast Ethernet (HPC Asia 2005).
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace neighbour_exchange {
namespace {

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && spec.ranks % 2 == 0 && spec.collective == Collective::all_gather;
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank pairs = spec.ranks / 2;
  const double blocks = spec.ranks - 1;
  const std::uint32_t neighbours = pairs == 1 ? 1 : 2;
  return {.rounds = static_cast<double>(pairs),
          .sent = blocks / spec.ranks,
          .received = blocks / spec.ranks,
          .steps = index_of(pairs) + neighbours,
          .message_chunks = neighbours,
          .peers = neighbours,
          .chunks = index_of(spec.ranks)};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const Rank pairs = n / 2;
  const Rank side = rank % 2 == 0 ? -1 : 1;  // where the neighbour outside the pair is
  const Rank inside = rank - side;
  const Rank outside = wrapped(rank + side, n);
  const auto blocks_of = [&](Rank pair) { return output(2 * index_of(wrapped(pair, pairs))); };

  Schedule schedule = start_schedule("neighbour_exchange", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  lane.copy_send(input(0), output(index_of(rank)), inside);
  lane.receive(inside, output(index_of(inside)));
  if (pairs > 1) lane.send(blocks_of(rank / 2), outside, 2);
  // Two rounds at a time, one from each neighbour; each passes on what it gets but the last.
  lane.repeat(1, pairs / 2 + 1, [&](Rank distance) {
    const Rank rounds = 2 * distance;
    lane.receive(outside, blocks_of(rank / 2 + side * distance), 2).target =
        rounds < pairs ? inside : kNoRank;
    if (rounds == pairs) return;
    lane.receive(inside, blocks_of(rank / 2 - side * distance), 2).target =
        rounds + 1 < pairs ? outside : kNoRank;
  });
  return schedule;
}

}  // namespace
}  // namespace neighbour_exchange

constinit const Algorithm kNeighbourExchange{
    "neighbour_exchange",         "medium blocks, even ranks: a ring in half the rounds",
    neighbour_exchange::supports, neighbour_exchange::cost,
    neighbour_exchange::build,    true};

}  // namespace coll
