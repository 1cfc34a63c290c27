// SPDX-License-Identifier: Apache-2.0
// Halving and doubling on a circulant graph.
//
// Algorithm: circulant
// Idea: rank r sums the blocks r … r+w-1 (modulo n), at first all n. In each round it sends the
//   second half of its sums to the rank with whose block that half begins. It takes as many sums of
//   its first half from the rank equally far before it. This ends when only block r is left.
//   all_reduce then gathers the blocks in the same rounds backwards: rank r has the blocks up to r
//   and gets as many blocks before these, again from a rank before it. So it waits for the same
//   ranks in both halves. If it gathered from ranks behind it, some ranks would get rounds ahead of
//   others, and would block links with long messages while others wait for short ones. No rank is
//   extra, whatever their number. A message is cut in two where its blocks wrap around to 0. A
//   block that is not yet summed is copied to travel with blocks that are.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   reduce_scatter | max(there) + copy    | L   | part   | part   | part | kept | n//2 | met
//   all_reduce     | max(both) + copy - 1 | 2*L | 2*part | 2*part | part | 0    | n//2 | met
//   where part = (n-1)/n;
//   rounds = [(-(-n // 2**(k+1)), -(-n // 2**k) + -n // 2**(k+1)) for k in range(L)];
//   wraps = lambda first, count: first % n + count > n;
//   there = [sum(2 + wraps(r, m) + wraps(r+s, m) for s, m in rounds) for r in range(n)];
//   back = [sum(2 + wraps(r-m+1, m) + wraps(r-s-m+1, m) for s, m in rounds) for r in range(n)];
//   both = [there[r] + back[r] for r in range(n)];
//   copy = n > 5 and n % 2; kept = n*(n > 2); met = 2*L - (n % 2 == 0) - 2*(n in [3, 5])
// Wins: medium messages if the number of ranks is no power of two: the bytes of a ring in
//   ceil(log2(n)) rounds each way.
// Source: Traeff: Optimal, non-pipelined reduce-scatter and allreduce algorithms (2024).
#include <algorithm>
#include <vector>

#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace circulant {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, reduce_scatter, all_reduce);
}

/// A round of halving: rank r sends blocks r+skip … r+skip+count-1 to rank r+skip.
struct Round {
  Rank skip, count;
};

std::vector<Round> halving(Rank ranks) {
  std::vector<Round> rounds;
  for (Rank width = ranks; width > 1; width = rounds.back().skip) {
    rounds.push_back({(width + 1) / 2, width / 2});
  }
  return rounds;
}

/// If the number of blocks is odd, block ranks/2 gets no sum in the first round. In the second it
/// is sent, with up to 5 ranks alone.
bool copies_middle(Rank ranks) {
  return ranks > 5 && ranks % 2 == 1;
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank n = spec.ranks;
  const std::vector<Round> rounds = halving(n);
  const bool both = spec.collective == all_reduce;
  std::uint32_t most = 0;
  for (Rank rank = 0; rank < n; ++rank) {
    std::uint32_t steps = 0;
    const auto count_piece = [&](Rank, Rank) { ++steps; };
    for (const auto& [skip, count] : rounds) {
      for_each_piece(rank, count, n, count_piece);
      for_each_piece(rank + skip, count, n, count_piece);
      if (!both) continue;
      for_each_piece(rank - count + 1, skip > 1 ? count : 0, n, count_piece);
      for_each_piece(rank - skip - count + 1, count, n, count_piece);
    }
    most = std::max(most, steps);
  }
  const double part = static_cast<double>(n - 1) / n;
  const auto met = static_cast<std::uint32_t>(2 * rounds.size()) - (n % 2 == 0 ? 1 : 0);
  return {.rounds = static_cast<double>(rounds.size()) * (both ? 2 : 1),
          .sent = both ? 2 * part : part,
          .received = both ? 2 * part : part,
          .reduced = part,
          .steps = most + (copies_middle(n) ? 1 : 0),
          .scratch_chunks = both || n == 2 ? 0 : index_of(n),
          .message_chunks = index_of(n / 2),
          .peers = n == 3 || n == 5 ? met - 2 : met,
          .chunks = index_of(n)};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const bool both = spec.collective == all_reduce;
  Schedule schedule = start_schedule("circulant", spec, rank, both ? index_of(n) : 1);
  if (!both && n > 2) schedule.scratch_chunks = index_of(n);
  LaneBuilder lane(schedule.lanes[0]);
  const Space sums = both ? Space::output : Space::scratch;

  const std::vector<Round> rounds = halving(n);
  Rank summed = 0;  // the blocks before rank + summed have sums
  for (const Round& round : rounds) {
    const Rank skip = round.skip;
    const Rank count = round.count;
    const Rank to = wrapped(rank + skip, n);
    const Rank from = wrapped(rank - skip, n);
    if (skip < summed && summed < skip + count) {
      const std::uint32_t middle = index_of(wrapped(rank + summed, n));
      lane.copy(input(middle), {sums, middle});
      ++summed;
    }
    const Space source = skip < summed ? sums : Space::input;
    for_each_piece(to, count, n, [&](Rank first, Rank length) {
      lane.send({source, index_of(first)}, to, index_of(length));
    });
    const Space with = summed > 0 ? sums : Space::input;
    for_each_piece(rank, count, n, [&](Rank first, Rank length) {
      const bool last = skip == 1;
      const Operand into = last && !both ? output(0) : Operand{sums, index_of(first)};
      Step& step = lane.receive_reduce(from, {with, index_of(first)}, into, index_of(length));
      step.finish = last;
      if (last && both) step.target = wrapped(rank + 1, n);  // the way back begins
    });
    summed = std::max(summed, count);
  }
  for (std::size_t i = both ? rounds.size() : 0; i-- > 0;) {
    const auto [skip, count] = rounds[i];
    const Rank to = wrapped(rank + skip, n);
    const Rank from = wrapped(rank - skip, n);
    for_each_piece(rank - count + 1, skip > 1 ? count : 0, n, [&](Rank first, Rank length) {
      lane.send(output(index_of(first)), to, index_of(length));
    });
    for_each_piece(from - count + 1, count, n, [&](Rank first, Rank length) {
      lane.receive(from, output(index_of(first)), index_of(length));
    });
  }
  return schedule;
}

}  // namespace
}  // namespace circulant

constinit const Algorithm kCirculant{
    "circulant", "medium messages, ranks no power of two: a ring's bytes in few rounds",
    circulant::supports, circulant::cost, circulant::build};

}  // namespace coll
