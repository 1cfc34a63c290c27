// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: partners at distance 1, 2, 4 …, whole vectors.
//
// Algorithm: recursive_doubling
// Idea: in round k rank r exchanges all it has with rank r xor 2^k: sums of 2^k inputs
//   (all_reduce), 2^k blocks (all_gather), or an empty message (barrier). Both ranks of a pair
//   combine the same two values, so all have the same bits. Ranks beyond the largest power of two p
//   first give their data to a partner, which forwards results to them as they arrive.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce | K+1         | K+odd+far | K+odd    | K+odd   | K+odd | 0 | 1    | K+odd
//   all_gather | 2*K + 2*odd | K+odd+far | blocks/n | (n-1)/n | 0     | 0 | half | K+odd
//   barrier    | K+1         | K+odd+far | 0        | 0       | 0     | 0 | 1    | K+odd
//   where K = log2floor(n); p = 2**K; q = n-p; odd = q > 0; far = q > p//2;
//   half = p//2 + min(p//2, q);
//   blocks = p-1 + odd*(n-1) + sum(min(2**i, q) for i in range(K))
// Wins: small messages: the fewest rounds of all for a result on every rank.
// Source: Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH
//   (IJHPCA 2005), sections 4.1 and 4.5.
#include "collectives/fold.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace recursive_doubling {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, all_gather, barrier);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Fold fold(spec.ranks);
  const Rank odd = fold.folded > 0 ? 1 : 0;
  const Rank met = fold.rounds + odd;
  Cost cost{.rounds = static_cast<double>(fold.rounds_with_extras()),
            .steps = index_of(fold.rounds + 1),
            .peers = index_of(met)};
  if (spec.collective == all_reduce) cost.sent = cost.received = cost.reduced = met;
  if (spec.collective == all_gather) {
    Rank blocks = fold.core - 1 + odd * (spec.ranks - 1);
    for (Rank k = 0; k < fold.rounds; ++k) blocks += std::min(Rank{1} << k, fold.folded);
    cost.sent = static_cast<double>(blocks) / spec.ranks;
    cost.received = static_cast<double>(spec.ranks - 1) / spec.ranks;
    cost.message_chunks = index_of(fold.first(fold.core / 2));
    cost.chunks = index_of(spec.ranks);
    cost.steps = index_of(2 * met);
  }
  return cost;
}

/// all_reduce and barrier: what comes from one partner goes, combined, to the next one at once.
void exchange_sums(const CollectiveSpec& spec, const Fold& fold, Rank rank, Lane& lane) {
  const bool data = spec.collective == all_reduce;
  const Rank place = fold.place(rank);
  std::vector<Rank> sources, targets;
  if (fold.is_extra(rank)) {
    targets = {rank - 1, kNoRank};
    sources = {kNoRank, rank - 1};
  } else {
    const Rank extra = fold.has_extra(place) ? rank + 1 : kNoRank;
    sources = {extra};
    for (Rank k = 0; k < fold.rounds; ++k) {
      const Rank partner = fold.first(place ^ Rank{1} << k);
      targets.push_back(partner);
      sources.push_back(partner);
    }
    targets.push_back(extra);
  }
  Operand sum = input(0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Step step{.source = sources[i], .target = targets[i], .count = data ? 1U : 0U};
    if (data && !step.receives()) {
      step.from = sum;
    } else if (data) {
      step.into = output(0);
      if (!fold.is_extra(rank)) step.with = sum;
      step.swapped = step.with.present() && rank < step.source;
      step.finish = !fold.is_extra(rank) && i + 1 == sources.size();
      sum = output(0);
    }
    lane.append(step);
  }
}

void exchange_blocks(const Fold& fold, Rank rank, LaneBuilder lane) {
  const Rank place = fold.place(rank);
  const bool is_extra = fold.is_extra(rank);
  const Rank core = fold.first(place);
  const Rank extra = fold.has_extra(place) ? core + 1 : kNoRank;
  const auto own = output(index_of(rank));
  if (extra != kNoRank) {
    lane.copy_send(input(0), own, is_extra ? core : extra);
    const Rank other = is_extra ? core : extra;
    lane.receive(other, output(index_of(other)));
  }
  for (Rank k = 0; k < fold.rounds; ++k) {
    const auto range = [&](Rank of) {  // the 2^k places that `of` has blocks of
      const Rank begin = of >> k << k;
      return std::pair{index_of(fold.first(begin)),
                       index_of(fold.first(begin + (Rank{1} << k)) - fold.first(begin))};
    };
    const Rank partner_place = place ^ Rank { 1 } << k;
    const Rank partner = fold.first(partner_place);
    const auto [theirs, their_count] = range(partner_place);
    if (is_extra) {
      lane.receive(core, output(theirs), their_count);
      continue;
    }
    const auto [mine, my_count] = range(place);
    if (k == 0 && extra == kNoRank) {
      lane.copy_send(input(0), own, partner);
    } else {
      lane.send(output(mine), partner, my_count);
    }
    lane.receive(partner, output(theirs), their_count).target = extra;
  }
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("recursive_doubling", spec, rank, 1);
  const Fold fold(spec.ranks);
  if (spec.collective == all_gather) {
    exchange_blocks(fold, rank, LaneBuilder(schedule.lanes[0]));
  } else {
    exchange_sums(spec, fold, rank, schedule.lanes[0]);
  }
  return schedule;
}

}  // namespace
}  // namespace recursive_doubling

constinit const Algorithm kRecursiveDoubling{
    "recursive_doubling",
    "small messages: fewest rounds for a result on every rank",
    recursive_doubling::supports,
    recursive_doubling::cost,
    recursive_doubling::build,
    true,
    [](const CollectiveSpec& /*spec*/) { return true; }};

}  // namespace coll
