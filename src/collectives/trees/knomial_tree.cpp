// SPDX-License-Identifier: Apache-2.0
// Binomial and k-nomial trees.
//
// Algorithm: binomial (k = 2), knomial_4 (k = 4), knomial_8 (k = 8)
// Idea: rank v counts from the root (in reduce of 2^j ranks by exclusive or); its parent is v with
//   the lowest nonzero base-k digit cleared. Sums and blocks go up the tree, copies go down. A rank
//   serves its largest subtree first on the way down and last on the way up. gather and scatter
//   move the blocks of a whole subtree as one message (two where the ranks wrap around to 0).
//   all_reduce and barrier go up and down, with root rank 0.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   broadcast  | c             | depth   | c       | 1       | 0 | 0         | 1 | c
//   reduce     | c             | depth   | 1       | c       | c | t > 2     | 1 | c
//   all_reduce | max(2, 2*c-1) | 2*depth | c       | c       | c | 0         | 1 | c
//   gather     | c+1           | depth   | t/n     | (n-1)/n | 0 | t*(t > 1) | t | c
//   scatter    | c+1           | depth   | (n-1)/n | t/n     | 0 | t*(t > 1) | t | c
//   barrier    | max(2, 2*c-1) | 2*depth | 0       | 0       | 0 | 0         | 1 | c
//   where sub = {d*k**j: min(k**j, n-d*k**j) for j in range(L) for d in range(1, k) if d*k**j < n};
//   c = len(sub); t = max(sub.values());
//   depth = max(digits(v, k) for v in range(n))
// Wins: small messages: the fewest rounds for one root. A larger k has fewer rounds and more
//   messages from one rank, which is faster if messages overlap.
// Source: binomial: Thakur, Rabenseifner, Gropp: Optimization of collective communication
//   operations in MPICH (IJHPCA 2005), section 4.2; k-nomial: Wilkins et al.: Generalized
//   collective algorithms for the exascale era (CLUSTER 2023).
#include "collectives/knomial.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace knomial_tree {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 &&
         one_of(spec.collective, broadcast, reduce, all_reduce, gather, scatter, barrier);
}

/// One rank's place in the tree, in real ranks, and its lane.
struct Builder {
  const CollectiveSpec& spec;
  KnomialTree tree;
  Rank root;
  bool by_xor;  ///< as from_root() counts: of sums; blocks must keep their order
  Rank v, parent;
  std::vector<Rank> children;  ///< places, small subtrees first
  LaneBuilder lane;

  Builder(const CollectiveSpec& of, Rank radix, Rank rank, Lane& steps)
      : spec(of),
        tree{radix, of.ranks},
        root(has_root(of.collective) ? of.root : 0),
        by_xor(of.collective == reduce),
        v(by_xor ? from_root(rank, root, of.ranks) : wrapped(rank - root, of.ranks)),
        parent(v == 0 ? kNoRank : real(tree.parent(v))),
        children(tree.children(v)),
        lane(steps) {}

  [[nodiscard]] Rank real(Rank place) const {
    return by_xor ? rank_at(place, root, spec.ranks) : wrapped(place + root, spec.ranks);
  }
  [[nodiscard]] Rank largest() const { return real(children.back()); }

  /// Sums of the subtree go to the parent; `partial` keeps them in between. At the root the last
  /// one goes to `output` and, where `target` is set, to that rank.
  void sum_up(Operand partial, Rank target = kNoRank) {
    if (children.empty()) {
      lane.send(input(0), parent);
      return;
    }
    Operand with = input(0);
    for (const Rank child : children) {
      const bool last = child == children.back();
      Step& step = lane.receive_reduce(real(child), with, partial);
      step.swapped = real(v) < real(child);
      if (last && v == 0) {
        step.target = target;
        step.finish = true;
      } else if (last) {
        step.target = parent;
        step.into = {};
      }
      with = partial;
    }
  }

  /// To all children but the first `served` of the largest ones.
  void send_down(std::size_t served) {
    for (std::size_t i = children.size() - served; i-- > 0;) {
      lane.send(output(0), real(children[i]));
    }
  }

  void hand_down() {
    if (children.empty()) {
      lane.receive(parent, output(0));
    } else {
      lane.receive_send(parent, output(0), largest());
      send_down(1);
    }
  }

  void build_broadcast() {
    if (v != 0) return hand_down();
    lane.copy_send(input(0), output(0), largest());
    send_down(1);
  }

  void build_all_reduce() {
    sum_up(output(0), v == 0 ? largest() : kNoRank);
    if (v == 0) {
      send_down(1);
    } else {
      hand_down();
    }
  }

  void build_barrier() {
    for (const Rank child : children) {
      Step& step = lane.await(real(child));
      if (child == children.back()) step.target = v == 0 ? largest() : parent;
    }
    if (v != 0) {
      if (children.empty()) lane.signal(parent);
      Step& step = lane.await(parent);
      if (!children.empty()) step.target = largest();
    }
    for (std::size_t i = children.empty() ? 0 : children.size() - 1; i-- > 0;) {
      lane.signal(real(children[i]));
    }
  }

  /// The blocks of v's subtree as messages between v and its parent: use(offset from v's own block,
  /// real rank of the first, count). Only the root's buffer is in the order of real ranks.
  template <class Use>
  void for_each_message(Rank child, Use use) const {
    if (tree.parent(child) != 0) return use(Rank{0}, Rank{0}, tree.size(child));
    Rank offset = 0;
    for_each_piece(real(child), tree.size(child), spec.ranks, [&](Rank first, Rank count) {
      use(offset, first, count);
      offset += count;
    });
  }

  void build_gather() {
    if (v != 0 && children.empty()) {
      lane.send(input(0), parent);
      return;
    }
    lane.copy(input(0), v == 0 ? output(index_of(root)) : scratch(0));
    for (const Rank child : children) {
      for_each_message(child, [&](Rank offset, Rank first, Rank count) {
        lane.receive(real(child),
                     v == 0 ? output(index_of(first)) : scratch(index_of(child - v + offset)),
                     index_of(count));
      });
    }
    if (v == 0) return;
    for_each_message(v, [&](Rank offset, Rank, Rank count) {
      lane.send(scratch(index_of(offset)), parent, index_of(count));
    });
  }

  void build_scatter() {
    if (v != 0 && children.empty()) {
      lane.receive(parent, output(0));
      return;
    }
    if (v != 0) {
      for_each_message(v, [&](Rank offset, Rank, Rank count) {
        lane.receive(parent, scratch(index_of(offset)), index_of(count));
      });
    }
    for (std::size_t i = children.size(); i-- > 0;) {
      const Rank child = children[i];
      for_each_message(child, [&](Rank offset, Rank first, Rank count) {
        lane.send(v == 0 ? input(index_of(first)) : scratch(index_of(child - v + offset)),
                  real(child), index_of(count));
      });
    }
    lane.copy(v == 0 ? input(index_of(root)) : scratch(0), output(0));
  }
};

/// Scratch of one rank: the blocks of its subtree, or a partial sum where it has no output.
std::uint32_t scratch_of(Collective collective, const KnomialTree& tree, Rank v) {
  if (v == 0) return 0;
  if (one_of(collective, gather, scatter)) return tree.size(v) > 1 ? index_of(tree.size(v)) : 0;
  return collective == reduce && tree.children(v).size() > 1 ? 1 : 0;
}

/// Blocks of the longest message of gather and scatter: a subtree, or what comes before or after
/// real rank 0 of one that the root itself exchanges.
std::uint32_t longest_message(const KnomialTree& tree, Rank root) {
  Rank longest = 1;
  for (Rank v = 1; v < tree.ranks; ++v) {
    const Rank size = tree.size(v);
    const Rank before_wrap = std::clamp(tree.ranks - root - v, Rank{0}, size);
    const bool cut = tree.parent(v) == 0;
    longest = std::max(longest, cut ? std::max(before_wrap, size - before_wrap) : size);
  }
  return index_of(longest);
}

template <Rank kRadix>
Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const KnomialTree tree{kRadix, spec.ranks};
  const std::vector<Rank> top = tree.children(0);
  const auto children = static_cast<std::uint32_t>(top.size());
  const Collective collective = spec.collective;
  const bool both = one_of(collective, all_reduce, barrier);
  const bool blocks = one_of(collective, gather, scatter);
  Cost cost{.rounds = (both ? 2.0 : 1.0) * tree.depth(), .steps = children, .peers = children};
  if (both) cost.steps = children == 1 ? 2 : 2 * children - 1;
  if (one_of(collective, broadcast, all_reduce)) cost.sent = children;
  if (one_of(collective, reduce, all_reduce)) cost.received = cost.reduced = children;
  if (collective == reduce) cost.sent = 1;
  if (collective == broadcast) cost.received = 1;
  if (blocks) {
    const double at_root = static_cast<double>(spec.ranks - 1) / spec.ranks;
    const double at_child = static_cast<double>(tree.largest_subtree()) / spec.ranks;
    cost.sent = collective == gather ? at_child : at_root;
    cost.received = collective == gather ? at_root : at_child;
    cost.message_chunks = longest_message(tree, spec.root);
    cost.chunks = index_of(spec.ranks);
    ++cost.steps;
    const Rank wrap = spec.ranks - spec.root;  // the place of real rank 0
    for (const Rank child : top) {
      if (child < wrap && wrap < child + tree.size(child)) ++cost.steps;
    }
  }
  for (const Rank child : top) {
    cost.scratch_chunks = std::max(cost.scratch_chunks, scratch_of(collective, tree, child));
  }
  return cost;
}

template <Rank kRadix>
Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule =
      start_schedule(kRadix == 2 ? "binomial" : "knomial_" + std::to_string(kRadix), spec, rank, 1);
  Builder builder(spec, kRadix, rank, schedule.lanes[0]);
  schedule.scratch_chunks = scratch_of(spec.collective, builder.tree, builder.v);
  switch (spec.collective) {
    case broadcast:
      builder.build_broadcast();
      break;
    case reduce:
      builder.sum_up(builder.v == 0 ? output(0) : scratch(0));
      break;
    case all_reduce:
      builder.build_all_reduce();
      break;
    case gather:
      builder.build_gather();
      break;
    case scatter:
      builder.build_scatter();
      break;
    default:
      builder.build_barrier();
      break;
  }
  return schedule;
}

bool in_tree_order(const CollectiveSpec& spec) {
  return std::has_single_bit(index_of(spec.ranks));
}

}  // namespace
}  // namespace knomial_tree

constinit const Algorithm kBinomial{"binomial",
                                    "small messages: fewest rounds for one root",
                                    knomial_tree::supports,
                                    knomial_tree::cost<2>,
                                    knomial_tree::build<2>,
                                    false,
                                    knomial_tree::in_tree_order};
constinit const Algorithm kKnomial4{
    "knomial_4", "small messages where a rank's sends overlap: half the rounds",
    knomial_tree::supports, knomial_tree::cost<4>, knomial_tree::build<4>};
constinit const Algorithm kKnomial8{
    "knomial_8", "tiny messages, many ranks, sends that overlap: fewest rounds",
    knomial_tree::supports, knomial_tree::cost<8>, knomial_tree::build<8>};

}  // namespace coll
