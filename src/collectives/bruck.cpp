// SPDX-License-Identifier: Apache-2.0
// Bruck's all-gather and all-to-all: log2(n) rounds.
//
// Algorithm: bruck
// Idea: all_gather: in round k every rank has the 2^k blocks from its own on, and gets the next 2^k
//   blocks from the rank 2^k further on. Blocks go straight to their places, so a message is cut in
//   two where they wrap around to 0, and no rotation remains at the end. all_to_all: the block for
//   the rank i further on travels along the binary digits of i. The blocks of a round are packed
//   into one message, by copies of runs of blocks that arrived together. Blocks of the last round
//   arrive at their destination and go straight to their places.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_gather | 2*L + sum(m > 1 for m in grown) | L | (n-1)/n  | (n-1)/n  | 0 | 0    | most | near
//   all_to_all | 2*L + packed + unpacked         | L | blocks/n | blocks/n | 0 | kept | peak | near
//   where grown = [min(2**k, n-2**k) for k in range(L)]; most = max(grown);
//   moved = [sum(i >> k & 1 for i in range(n)) for k in range(L)];
//   blocks = sum(moved); peak = max(moved); copies = lambda m: (1 + log2ceil(m)) * (m > 0);
//   packs = [m // 2**k * copies(2**k) + copies(m % 2**k) for k, m in enumerate(moved[:-1])];
//   packed = sum(c for c, m in zip(packs + moved[-1:], moved) if m > 1);
//   unpacked = 2**L//2 + (moved[-1] > 1);
//   kept = sum(moved[:-1]) + (peak if n > 3 else 0)
// Wins: small blocks of any number of ranks: the fewest rounds.
// Source: Bruck et al.: Efficient algorithms for all-to-all communications in multiport
//   message-passing systems (IEEE TPDS 1997), sections 3 and 4.
#include <algorithm>
#include <vector>

#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace bruck {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  // Ranks that pass on others' blocks of all_to_all do not know how long they are.
  return spec.ranks >= 2 &&
         one_of(spec.collective, all_gather, spec.unequal ? all_gather : all_to_all);
}

/// The numbers 1 … ranks-1 with the digit `distance`, which travel in its round.
Rank travellers(Rank ranks, Rank distance) {
  const Rank whole = ranks / (2 * distance) * distance;
  return whole + std::max(0, ranks % (2 * distance) - distance);
}

/// `distance` blocks in a row travel, then as many do not. Of those in a row the first has not
/// moved before, and the next 1, 2, 4 … came together.
Rank packing_copies(Rank ranks, Rank distance) {
  const auto copies = [](Rank row) { return row > 0 ? 1 + ceil_log2(row) : 0; };
  const Rank count = travellers(ranks, distance);
  return count / distance * copies(distance) + copies(count % distance);
}

/// Blocks of the longest message that is packed (a single block is sent from where it is).
Rank longest_packed(Rank ranks) {
  Rank longest = 0;
  for (Rank distance = 1; distance < ranks; distance *= 2) {
    longest = std::max(longest, travellers(ranks, distance));
  }
  return longest > 1 ? longest : 0;
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank n = spec.ranks;
  const Rank rounds = ceil_log2(n);
  Rank sent = 0;
  Rank steps = 2 * rounds;
  Rank scratch = spec.collective == all_to_all ? longest_packed(n) : 0;
  Rank longest = 1;
  for (Rank distance = 1; distance < n; distance *= 2) {
    const bool last = 2 * distance >= n;
    if (spec.collective == all_gather) {
      const Rank count = std::min(distance, n - distance);
      sent += count;
      longest = std::max(longest, count);
      steps += count > 1 ? 1 : 0;  // a rank next to the wrap sends two pieces
    } else {
      const Rank count = travellers(n, distance);
      sent += count;
      longest = std::max(longest, count);
      if (count > 1) steps += last ? count : packing_copies(n, distance);
      steps += last ? distance + (count > 1 ? 1 : 0) : 0;  // unpacking; two pieces
      scratch += last ? 0 : count;
    }
  }
  return {.rounds = static_cast<double>(rounds),
          .sent = static_cast<double>(sent) / n,
          .received = static_cast<double>(sent) / n,
          .steps = index_of(steps),
          .scratch_chunks = index_of(scratch),
          .message_chunks = index_of(longest),
          .peers = power_of_two_neighbours(n),
          .chunks = index_of(n)};
}

void build_all_gather(Rank n, Rank rank, LaneBuilder lane) {
  for (Rank distance = 1; distance < n; distance *= 2) {
    const Rank count = std::min(distance, n - distance);
    const Rank before = wrapped(rank - distance, n);
    const Rank after = wrapped(rank + distance, n);
    if (distance == 1) {
      lane.copy_send(input(0), output(index_of(rank)), before);
    } else {
      for_each_piece(rank, count, n, [&](Rank first, Rank length) {
        lane.send(output(index_of(first)), before, index_of(length));
      });
    }
    for_each_piece(after, count, n, [&](Rank first, Rank length) {
      lane.receive(after, output(index_of(first)), index_of(length));
    });
  }
}

/// Where the blocks are on one rank.
struct Travel {
  Rank ranks, rank;
  std::vector<std::uint32_t> arrivals;  ///< [k]: scratch chunk of the first that came in round k

  /// The place of block i, which has the digit `distance`, among those that travel in its round.
  static Rank order(Rank i, Rank distance) { return i / (2 * distance) * distance + i % distance; }

  /// The block with i ranks to go in all, before the round of `distance`.
  [[nodiscard]] Operand at(Rank i, Rank distance) const {
    const Rank travelled = i % distance;
    if (travelled == 0) return input(index_of(wrapped(rank + i, ranks)));
    const Rank round = floor_log2(travelled);  // the last one it travelled in
    return scratch(arrivals[static_cast<std::size_t>(round)] +
                   index_of(order(i, Rank{1} << round)));
  }
};

void pack(const Travel& travel, Rank distance, LaneBuilder lane) {
  const Rank rows = (travel.ranks + distance - 1) / (2 * distance);
  const auto copy_of_each_row = [&](Rank offset, Rank most) {
    lane.repeat(0, rows, [&](Rank row) {
      const Rank first = (2 * row + 1) * distance + offset;
      const Rank count = std::min(most, travel.ranks - first);
      if (count <= 0) return;
      lane.copy(travel.at(first, distance), scratch(index_of(Travel::order(first, distance))),
                index_of(count));
    });
  };
  copy_of_each_row(0, 1);
  for (Rank offset = 1; offset < distance; offset *= 2) copy_of_each_row(offset, offset);
}

void build_all_to_all(Rank n, Rank rank, Schedule& schedule) {
  LaneBuilder lane(schedule.lanes[0]);
  Travel travel{n, rank, {}};
  std::uint32_t arrivals = index_of(longest_packed(n));
  Rank distance = 1;
  for (; 2 * distance < n; distance *= 2) {
    const std::uint32_t count = index_of(travellers(n, distance));
    if (count > 1) pack(travel, distance, lane);
    lane.send(count > 1 ? scratch(0) : travel.at(distance, distance), wrapped(rank + distance, n),
              count);
    lane.receive(wrapped(rank - distance, n), scratch(arrivals), count);
    travel.arrivals.push_back(arrivals);
    arrivals += count;
  }
  schedule.scratch_chunks = arrivals;

  // The last round. Block i is at home `i` ranks after its origin: the first, with i = n-1, from
  // the next rank. So they are packed backwards.
  const Rank count = n - distance;
  const Rank to = wrapped(rank + distance, n);
  const Rank from = wrapped(rank - distance, n);
  Operand packed = count > 1 ? scratch(0) : travel.at(distance, distance);
  lane.repeat(0, count > 1 ? count : 0,
              [&](Rank i) { lane.copy(travel.at(n - 1 - i, distance), scratch(index_of(i))); });
  for_each_piece(to + 1, count, n, [&](Rank, Rank length) {
    lane.send(packed, to, index_of(length));
    packed.chunk += index_of(length);
  });
  for_each_piece(rank + 1, count, n, [&](Rank first, Rank length) {
    lane.receive(from, output(index_of(first)), index_of(length));
  });
  lane.repeat(0, distance, [&](Rank i) {
    lane.copy(travel.at(i, distance), output(index_of(wrapped(rank - i, n))));
  });
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("bruck", spec, rank, 1);
  if (spec.collective == all_gather) {
    build_all_gather(spec.ranks, rank, LaneBuilder(schedule.lanes[0]));
  } else {
    build_all_to_all(spec.ranks, rank, schedule);
  }
  return schedule;
}

}  // namespace
}  // namespace bruck

constinit const Algorithm kBruck{
    "bruck",         "small blocks, any number of ranks: fewest rounds",
    bruck::supports, bruck::cost,
    bruck::build,    true};

}  // namespace coll
