// SPDX-License-Identifier: Apache-2.0
// Recursive halving and then doubling, Rabenseifner's algorithm.
//
// Algorithm: recursive_halving_doubling
// Idea: the data is cut into p chunks, where p is the largest power of two. In round k ranks at
//   distance 2^k exchange halves of what they still sum ("vector halving, distance doubling": the
//   longest messages go to the nearest ranks), until each rank has one complete chunk. The same way
//   back gathers the chunks on all ranks, or at the root. Ranks beyond p first give their input to
//   a partner, which forwards results to them as they arrive. For reduce, ranks count from the
//   root (of 2^k ranks by exclusive or).
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce | 4*K-1 + 2*odd | 2*K + 2*odd | all       | all | sums | 0    | p//2 | K+odd
//   reduce     | 3*K + odd     | 2*K + odd   | 3/2 - 1/p | all | sums | kept | p//2 | K+odd
//   where K = log2floor(n); p = 2**K; q = n-p; odd = q > 0; sums = (p-1)/p + odd;
//   all = 2*(p-1)/p + odd; kept = p if K > 1 else 0
// Wins: medium messages: the bytes of a ring in 2*log2(n) rounds.
// Source: Rabenseifner: Optimization of collective reduction operations (ICCS 2004), section 4;
//   Thakur, Rabenseifner, Gropp (IJHPCA 2005), section 4.5.
#include <vector>

#include "collectives/fold.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace recursive_halving_doubling {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, reduce);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Fold fold(spec.ranks);
  const double p = fold.core;
  const Rank k = fold.rounds;
  const Rank odd = fold.folded > 0 ? 1 : 0;
  Cost cost{.received = 2 * (p - 1) / p + odd,
            .reduced = (p - 1) / p + odd,
            .message_chunks = index_of(fold.core / 2),
            .peers = index_of(k + odd),
            .chunks = index_of(fold.core)};
  if (spec.collective == all_reduce) {
    cost.rounds = 2 * k + 2 * odd;
    cost.sent = cost.received;
    cost.steps = index_of(4 * k - 1 + 2 * odd);
  } else {
    cost.rounds = 2 * k + odd;
    cost.sent = 1.5 - 1 / p;
    cost.steps = index_of(3 * k + odd);
    cost.scratch_chunks = k > 1 ? index_of(fold.core) : 0;
  }
  return cost;
}

/// One round of halving, for one place: the ranges of `count` chunks it keeps and gives away.
struct Round {
  Rank partner;  ///< a place
  std::uint32_t keep, other, count;
};

std::vector<Round> halving(const Fold& fold, Rank place) {
  std::vector<Round> rounds;
  std::uint32_t begin = 0;
  std::uint32_t count = index_of(fold.core);
  for (Rank mask = 1; mask < fold.core; mask *= 2) {
    count /= 2;
    const bool upper = (place & mask) != 0;
    const std::uint32_t keep = upper ? begin + count : begin;
    rounds.push_back({place ^ mask, keep, upper ? begin : begin + count, count});
    begin = keep;
  }
  return rounds;
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const bool for_all = spec.collective == all_reduce;
  const Rank root = for_all ? 0 : spec.root;
  const Fold fold(n);
  const Rank v = from_root(rank, root, n);
  const Rank place = fold.place(v);
  const auto real = [&](Rank of) { return rank_at(fold.first(of), root, n); };
  const std::vector<Round> rounds = halving(fold, place);
  const Round& nearest = rounds.front();
  const Round& farthest = rounds.back();

  Schedule schedule = start_schedule("recursive_halving_doubling", spec, rank, index_of(fold.core));
  LaneBuilder lane(schedule.lanes[0]);
  if (fold.is_extra(v)) {
    const Rank core = real(place);
    lane.send(input(nearest.other), core, nearest.count);
    lane.send(input(nearest.keep), core, nearest.count);
    if (!for_all) return schedule;
    lane.receive(core, output(farthest.keep));
    for (std::size_t i = rounds.size(); i-- > 0;) {
      lane.receive(core, output(rounds[i].other), rounds[i].count);
    }
    return schedule;
  }

  const Rank extra = fold.has_extra(place) ? wrapped(rank + 1, n) : kNoRank;
  const Space kept = for_all || place == 0 ? Space::output : Space::scratch;
  if (kept == Space::scratch && rounds.size() > 1) schedule.scratch_chunks = index_of(fold.core);
  Space sums = Space::input;
  Step* last = nullptr;
  for (const Round& round : rounds) {
    const Rank partner = real(round.partner);
    if (&round == &nearest && extra != kNoRank) {
      lane.receive_reduce_send(extra, input(round.other), partner, round.count).swapped = true;
      lane.receive_reduce(extra, input(round.keep), {kept, round.keep}, round.count).swapped = true;
      sums = kept;
    } else {
      lane.send({sums, round.other}, partner, round.count);
    }
    last = &lane.receive_reduce(partner, {sums, round.keep}, {kept, round.keep}, round.count);
    last->swapped = rank < partner;
    sums = kept;
  }

  // The last sum's pass also sends it, back to the rank it came from.
  Step& complete = *last;
  complete.finish = true;
  const Rank top = fold.core / 2;
  if (for_all || (place & top) != 0) complete.target = real(farthest.partner);
  if (!for_all && (place & top) != 0) {
    complete.into = {};
    return schedule;
  }
  if (for_all && extra != kNoRank) lane.send(output(farthest.keep), extra);
  Rank mask = top;
  for (std::size_t i = rounds.size(); i-- > 0; mask /= 2) {
    const Round& round = rounds[i];
    const Rank partner = real(round.partner);
    const bool gives = !for_all && (place & mask) != 0;
    if (gives || (for_all && mask != top)) lane.send({kept, round.keep}, partner, round.count);
    if (gives) break;
    lane.receive(partner, {kept, round.other}, round.count).target = for_all ? extra : kNoRank;
  }
  return schedule;
}

bool in_tree_order(const CollectiveSpec& spec) {
  return spec.collective == all_reduce || spec.root == 0 || Fold(spec.ranks).folded == 0;
}

}  // namespace
}  // namespace recursive_halving_doubling

constinit const Algorithm kRecursiveHalvingDoubling{
    "recursive_halving_doubling",
    "medium messages: a ring's bytes in 2 log2(n) rounds",
    recursive_halving_doubling::supports,
    recursive_halving_doubling::cost,
    recursive_halving_doubling::build,
    false,
    recursive_halving_doubling::in_tree_order};

}  // namespace coll
