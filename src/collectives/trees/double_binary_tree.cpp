// SPDX-License-Identifier: Apache-2.0
// Two binary trees at once: each rank is a leaf of one and an inner node of the other.
//
// Algorithm: double_binary_tree
// Idea: in a binary tree over all ranks but the root, half of the ranks are leaves, which forward
//   nothing. So a second tree, whose leaves are the inner ranks of the first, carries the other
//   half of the data. Both trees hang below the root, over the ranks in the order of the layout's
//   line, so that most neighbours in a tree are near each other. Sums go up, copies go down.
//   all_reduce (root: the line's first rank) has a lane up and a lane down for each tree, so that
//   the way up keeps streaming.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce | 4 + 2*full | 2*L | min(n, 4)/2 | min(n, 4)/2 | 1 | 0      | 1 | 2*min(n, 4)
//   broadcast  | 2 + full   | L   | 1           | 1           | 0 | 0      | 1 | min(n, 4)
//   reduce     | 2 + full   | L   | 1           | 1           | 1 | 2*full | 1 | min(n, 4)
//   where full = n > 3
// Wins: large messages and many ranks: bytes like a ring's, rounds like a tree's.
// Source: Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and
//   scan (Parallel Computing 2009), section 2; the in-order numbering is NCCL's.
#include "collectives/patterns.hpp"
#include "collectives/ring_order.hpp"
#include "collectives/trees/double_tree.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace double_binary_tree {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, broadcast, reduce);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const bool both = spec.collective == all_reduce;
  const bool full = spec.ranks > 3;  // some rank has two children
  const double rounds = ceil_log2(spec.ranks);
  const std::uint32_t ways = both ? 2 : 1;
  Cost cost{.rounds = ways * rounds,
            .sent = both ? (full ? 2.0 : spec.ranks / 2.0) : 1.0,
            .received = both ? (full ? 2.0 : spec.ranks / 2.0) : 1.0,
            .reduced = spec.collective == broadcast ? 0.0 : 1.0,
            .steps = ways * (full ? 3U : 2U),
            .scratch_chunks = spec.collective == reduce && full ? 2U : 0U,
            .peers = ways * (full ? 4U : index_of(spec.ranks)),
            .chunks = 2};
  return cost;
}

Schedule build(const CollectiveSpec& spec, const Layout& layout, Rank rank) {
  const Rank n = spec.ranks;
  const bool both = spec.collective == all_reduce;
  const RingOrder order(layout.line, both ? layout.line.front() : spec.root);
  const Rank v = order.place_of(rank);
  const auto real = [&](Rank place) { return order.rank_at(place); };

  Schedule schedule = start_schedule("double_binary_tree", spec, rank, 2, both ? 4 : 2);
  for (int tree = 0; tree < 2; ++tree) {
    const auto half = static_cast<std::uint32_t>(tree);
    const TreeNeighbours near = in_double_tree(tree, v, n);
    const auto [left, right] = near.children;
    Lane& up = schedule.lanes[both ? 2 * half : half];
    Lane& down = schedule.lanes[both ? 2 * half + 1 : half];
    if (spec.collective != broadcast) {
      LaneBuilder lane(up);
      Operand with = input(half);
      if (right != kNoRank) {
        const Operand partial = both ? output(half) : scratch(half);
        if (!both) schedule.scratch_chunks = half + 1;
        lane.receive_reduce(real(left), with, partial);
        with = partial;
      }
      const Rank last = right != kNoRank ? right : left;
      if (v == 0) {
        lane.receive_reduce(real(last), with, output(half)).finish = true;
      } else if (last != kNoRank) {
        lane.receive_reduce_send(real(last), with, real(near.parent));
      } else {
        lane.send(with, real(near.parent));
      }
    }
    if (spec.collective != reduce) {
      LaneBuilder lane(down);
      Step& first = v == 0 ? both ? lane.send(output(half), real(left))
                                  : lane.copy_send(input(half), output(half), real(left))
                    : left == kNoRank
                        ? lane.receive(real(near.parent), output(half))
                        : lane.receive_send(real(near.parent), output(half), real(left));
      if (both) {  // the way up still reads and writes these chunks
        first.wait_lane = static_cast<std::int16_t>(2 * tree);
        first.wait_step = static_cast<std::int32_t>(up.size()) - 1;
      }
      if (right != kNoRank) lane.send(output(half), real(right));
    }
  }
  return schedule;
}

}  // namespace
}  // namespace double_binary_tree

constinit const Algorithm kDoubleBinaryTree{
    "double_binary_tree", "large messages, many ranks: a ring's bytes in a tree's rounds",
    double_binary_tree::supports, double_binary_tree::cost, double_binary_tree::build};

}  // namespace coll
