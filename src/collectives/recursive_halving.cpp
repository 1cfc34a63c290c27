// SPDX-License-Identifier: Apache-2.0
// Recursive halving: partners at distance n/2, n/4 … exchange halves of what is left.
//
// Algorithm: recursive_halving
// Idea: in each round a rank splits the blocks that it still sums into two halves. It sends its
//   sums of the partner's half to the partner, and receives the partner's sums of its own half,
//   until only its own block is left. Ranks beyond the largest power of two p first give their
//   input to a partner, which sums two blocks and sends one back.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   reduce_scatter | steps | K+odd+far | (n-1+odd)/n | sums/n | sums/n | kept | half | K+odd
//   where K = log2floor(n); p = 2**K; q = n-p; odd = q > 0; far = q > p//2;
//   steps = 2*K + 2*odd + (q > 1); half = p//2 + min(p//2, q);
//   sums = p-1 + odd*n + sum(min(2**i, q) for i in range(K));
//   kept = half if n > 2 else 0
// Wins: small and medium messages: few rounds, and for powers of two the bytes of a ring.
// Source: Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH
//   (IJHPCA 2005), section 4.4; the fold: Rabenseifner, Traeff (EuroPVM/MPI 2004).
#include <algorithm>

#include "collectives/fold.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace recursive_halving {
namespace {

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && spec.collective == Collective::reduce_scatter;
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Fold fold(spec.ranks);
  const Rank n = spec.ranks;
  const Rank odd = fold.folded > 0 ? 1 : 0;
  Rank reduced = fold.core - 1 + odd * n;
  for (Rank k = 0; k < fold.rounds; ++k) reduced += std::min(Rank{1} << k, fold.folded);
  const std::uint32_t half = index_of(fold.first(fold.core / 2));
  return {.rounds = static_cast<double>(fold.rounds_with_extras()),
          .sent = static_cast<double>(n - 1 + odd) / n,
          .received = static_cast<double>(reduced) / n,
          .reduced = static_cast<double>(reduced) / n,
          .steps = index_of(2 * (fold.rounds + odd) + (fold.folded > 1 ? 1 : 0)),
          .scratch_chunks = n == 2 ? 0 : half,
          .message_chunks = half,
          .peers = index_of(fold.rounds + odd),
          .chunks = index_of(n)};
}

/// The blocks that a range of the core's places is for.
struct Blocks {
  std::uint32_t first, count;
};
struct Halves {
  Blocks keep, other;
};
/// What `place` keeps and what goes to its partner in the round of distance `mask`.
Halves halves(const Fold& fold, Rank place, Rank mask) {
  const auto blocks = [&](Rank of) {
    const Rank begin = of / mask * mask;
    const Rank first = fold.first(begin);
    return Blocks{index_of(first), index_of(fold.first(begin + mask) - first)};
  };
  return {blocks(place), blocks(place ^ mask)};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("recursive_halving", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  const Fold fold(spec.ranks);
  const Rank place = fold.place(rank);
  const Rank core = fold.first(place);
  const auto [kept, given] = halves(fold, place, fold.core / 2);
  if (fold.is_extra(rank)) {
    lane.send(input(given.first), core, given.count);
    lane.send(input(kept.first), core, kept.count);
    lane.receive(core, output(0));
    return schedule;
  }

  const Rank extra = fold.has_extra(place) ? rank + 1 : kNoRank;
  const std::uint32_t base = kept.first;  // the block of scratch 0
  if (extra != kNoRank || fold.core > 2) schedule.scratch_chunks = kept.count;
  bool in_scratch = false;
  const auto sum = [&](std::uint32_t block) {
    return in_scratch ? scratch(block - base) : input(block);
  };
  for (Rank mask = fold.core / 2; mask >= 1; mask /= 2) {
    const Rank partner = fold.first(place ^ mask);
    const auto [keep, other] = halves(fold, place, mask);
    bool sent = false;
    if (extra != kNoRank && !in_scratch) {
      lane.receive_reduce_send(extra, input(other.first), partner, other.count);
      lane.receive_reduce(extra, input(keep.first), scratch(0), keep.count);
      in_scratch = sent = true;
    }
    if (mask > 1) {
      if (!sent) lane.send(sum(other.first), partner, other.count);
      lane.receive_reduce(partner, sum(keep.first), scratch(keep.first - base), keep.count);
      in_scratch = true;
      continue;
    }
    // At the end each block is a message, an extra's first, as its sum goes on to it. Two ranks
    // with extras take turns: with one credit neither could send both first.
    if (!sent) lane.send(sum(other.first + other.count - 1), partner);
    if (extra != kNoRank) {
      lane.receive_reduce_send(partner, sum(index_of(extra)), extra).finish = true;
    }
    if (!sent && other.count == 2) lane.send(sum(other.first), partner);
    lane.receive_reduce(partner, sum(index_of(rank)), output(0)).finish = true;
  }
  return schedule;
}

}  // namespace
}  // namespace recursive_halving

constinit const Algorithm kRecursiveHalving{
    "recursive_halving", "small and medium messages: few rounds, each half as long",
    recursive_halving::supports, recursive_halving::cost, recursive_halving::build};

}  // namespace coll
