// SPDX-License-Identifier: Apache-2.0
// One and two shots in which every owner of a chunk sums all ranks' inputs in the order of the tree
// (SumOrder::tree and sided_tree).
//
// Algorithm: one_shot_ordered, two_shot_ordered
// Idea: every rank sends each owner what that owner sums: one_shot_ordered its whole input to all
//   (all_reduce), to the root (reduce), or a block to each (reduce_scatter), two_shot_ordered a
//   chunk to each rank, which then sends the sum to all (all_reduce) or to the root (reduce). The
//   tree joins ranks 2i and 2i+1 until 2**K remain, then neighbours. An owner follows the way from
//   its own input up to the tree's root and adds the other subtree at each node. What a subtree's
//   ranks have sent is summed in scratch first.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   one_shot_ordered
//   all_reduce     | n-1 + most | 1 | n-1     | n-1     | n-1     | kept | 1 | n-1
//   reduce         | root       | 1 | 1       | n-1     | n-1     | K-1  | 1 | n-1
//   reduce_scatter | n-1 + most | 1 | (n-1)/n | (n-1)/n | (n-1)/n | kept | 1 | n-1
//   two_shot_ordered
//   all_reduce | 3*n-4 + most | 2 | all | all | (n-1)/n | n*kept           | 1 | n-1
//   reduce     | 2*n-2 + root | 2 | 1   | all | (n-1)/n | n*(kept+(n > 3)) | 1 | n-1
//   where K = log2floor(n); p = 2**K; q = n-p; pairs = q + (p-q-q%2)//2; most = n-2 + pairs + q%2;
//   root = n-2 + pairs; kept = K-1 + (q >= p//2); all = 2*(n-1)/n
// Wins: only where the order of sums is demanded: small (one shot) and large messages (two shots)
//   of few ranks, and any number of ranks that is no power of two.
// Source: the tree of Rabenseifner, Traeff (EuroPVM/MPI 2004), section 2, which
//   recursive_halving_doubling sums in; one shot, two shots: one_shot.cpp, two_shot.cpp.
#include "collectives/fold.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace ordered_shots {
namespace {

using enum Collective;

/// The ranks first … end-1 below a node of the tree.
struct Subtree {
  Rank first, end;
  [[nodiscard]] Rank ranks() const { return end - first; }
};

/// The tree of sums: pairs of ranks where there are extras, then pairs of neighbouring places.
struct SumTree {
  Fold fold;

  /// The first rank of the right half; the left half is never the smaller one.
  [[nodiscard]] Rank middle(const Subtree& of) const {
    const Rank begin = fold.place(of.first), end = fold.place(of.end - 1) + 1;
    return end - begin == 1 ? of.first + 1 : fold.first(begin + (end - begin) / 2);
  }
  /// How many sums of a subtree's messages are kept at once; 0 for one message, which is added as
  /// it comes. The left half's sum is kept while the right half is summed.
  [[nodiscard]] std::uint32_t kept(const Subtree& of) const {
    if (of.ranks() == 1) return 0;
    const Rank begin = fold.place(of.first), end = fold.place(of.end - 1) + 1;
    const bool pairs_only = of.ranks() == 2 * (end - begin);
    return index_of(floor_log2(end - begin) + (pairs_only ? 1 : 0));
  }
  /// The other halves on the way from the tree's root down to `own`.
  [[nodiscard]] std::vector<Subtree> others(Rank own, Rank ranks) const {
    std::vector<Subtree> list;
    for (Subtree at{0, ranks}; at.ranks() > 1;) {
      const Rank right = middle(at);
      list.push_back(own < right ? Subtree{right, at.end} : Subtree{at.first, right});
      at = own < right ? Subtree{at.first, right} : Subtree{right, at.end};
    }
    return list;
  }
};

/// Where an owner has what it sums: its input, the sum, and the `kept` sums of subtrees.
struct Places {
  Operand own, sum;
  std::uint32_t first_kept, stride;  ///< scratch chunks
  [[nodiscard]] Operand kept(std::uint32_t index) const {
    return scratch(first_kept + index * stride);
  }
};

/// Sums what the ranks of a subtree of at least two have sent.
void sum_messages(const SumTree& tree, const Subtree& of, const Places& places, std::uint32_t index,
                  LaneBuilder lane) {
  const Rank right = tree.middle(of);
  const Operand sum = places.kept(index);
  if (right - of.first == 1) {
    lane.receive(of.first, sum);
  } else {
    sum_messages(tree, {of.first, right}, places, index, lane);
  }
  if (of.end - right == 1) {
    lane.receive_reduce(right, sum, sum).swapped = true;
  } else {
    sum_messages(tree, {right, of.end}, places, index + 1, lane);
    lane.reduce(places.kept(index + 1), sum, sum).swapped = true;
  }
}

/// Sums all ranks' inputs; returns the last step, which finishes the sum.
Step& sum_all(const SumTree& tree, Rank own, const std::vector<Subtree>& others,
              const Places& places, LaneBuilder lane) {
  Step* last = nullptr;
  Operand with = places.own;
  for (std::size_t i = others.size(); i-- > 0;) {
    const Subtree& other = others[i];
    if (other.ranks() == 1) {
      last = &lane.receive_reduce(other.first, with, places.sum);
    } else {
      sum_messages(tree, other, places, 0, lane);
      last = &lane.reduce(places.kept(0), with, places.sum);
    }
    last->swapped = own < other.first;
    with = places.sum;
  }
  last->finish = true;
  return *last;
}

std::uint32_t most_kept(const SumTree& tree, const std::vector<Subtree>& others) {
  std::uint32_t most = 0;
  for (const Subtree& other : others) most = std::max(most, tree.kept(other));
  return most;
}

/// The steps of a sum; `own_pair`: the own input's first partner is a rank, not a subtree.
std::uint32_t sum_steps(const Fold& fold, bool own_pair) {
  const Rank pairs = fold.folded + (fold.core - fold.folded - fold.folded % 2) / 2;
  return index_of(fold.core + fold.folded - 1 + pairs - (own_pair ? 1 : 0));
}
/// Is the first that the rank's input is combined with one rank's, not a subtree's? It is a
/// subtree's where the rank is alone at its place, and the neighbouring place has a pair.
bool has_own_pair(const Fold& fold, Rank rank) {
  return fold.folded % 2 == 0 || rank != fold.first(fold.folded);
}

bool supports_one_shot(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, reduce, reduce_scatter);
}
bool supports_two_shot(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && one_of(spec.collective, all_reduce, reduce);
}
bool in_tree_order(const CollectiveSpec& /*spec*/) {
  return true;
}

Cost cost_of_one_shot(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const SumTree tree{Fold(spec.ranks)};
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  Cost cost{.rounds = 1, .sent = n - 1, .received = n - 1, .reduced = n - 1, .peers = others};
  if (spec.collective == reduce) {
    cost.sent = 1;
    cost.steps = sum_steps(tree.fold, has_own_pair(tree.fold, spec.root));
    cost.scratch_chunks = most_kept(tree, tree.others(spec.root, spec.ranks));
    return cost;
  }
  cost.steps = others + sum_steps(tree.fold, tree.fold.folded % 2 == 0);
  cost.scratch_chunks = most_kept(tree, tree.others(spec.ranks - 1, spec.ranks));
  if (spec.collective == reduce_scatter) {
    cost.sent = cost.received = cost.reduced = (n - 1) / n;
    cost.chunks = others + 1;
  }
  return cost;
}

Cost cost_of_two_shot(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const SumTree tree{Fold(spec.ranks)};
  const double n = spec.ranks;
  const std::uint32_t others = index_of(spec.ranks) - 1;
  Cost cost{.rounds = 2,
            .sent = 2 * (n - 1) / n,
            .received = 2 * (n - 1) / n,
            .reduced = (n - 1) / n,
            .peers = others,
            .chunks = others + 1};
  const std::uint32_t kept = most_kept(tree, tree.others(spec.ranks - 1, spec.ranks));
  if (spec.collective == all_reduce) {
    cost.steps = 3 * others - 1 + sum_steps(tree.fold, tree.fold.folded % 2 == 0);
    cost.scratch_chunks = index_of(spec.ranks) * kept;
  } else {
    cost.sent = 1;
    cost.steps = 2 * others + sum_steps(tree.fold, has_own_pair(tree.fold, spec.root));
    // The root sums in its output. Of more than three ranks another one has the most.
    cost.scratch_chunks = index_of(spec.ranks) * kept;
    if (spec.ranks > 3) {
      cost.scratch_chunks += index_of(spec.root == spec.ranks - 1 ? spec.ranks - 1 : spec.ranks);
    }
  }
  return cost;
}

Schedule build_one_shot(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const bool blocks = spec.collective == reduce_scatter;
  Schedule schedule = start_schedule("one_shot_ordered", spec, rank, 1);
  LaneBuilder lane(schedule.lanes[0]);
  if (spec.collective == reduce && rank != spec.root) {
    lane.send(input(0), spec.root);
    return schedule;
  }
  if (spec.collective != reduce) {
    lane.repeat(1, n, [&](Rank i) {
      const Rank to = wrapped(rank + i, n);
      lane.send(input(blocks ? index_of(to) : 0), to);
    });
  }
  const SumTree tree{Fold(n)};
  const std::vector<Subtree> others = tree.others(rank, n);
  schedule.scratch_chunks = most_kept(tree, others);
  sum_all(tree, rank, others, {input(blocks ? index_of(rank) : 0), output(0), 0, 1}, lane);
  return schedule;
}

Schedule build_two_shot(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  const auto own = index_of(rank);
  const auto peer = [&](Rank distance) { return wrapped(rank + distance, n); };
  Schedule schedule = start_schedule("two_shot_ordered", spec, rank, index_of(n));
  LaneBuilder lane(schedule.lanes[0]);
  lane.repeat(1, n, [&](Rank i) { lane.send(input(index_of(peer(i))), peer(i)); });

  const SumTree tree{Fold(n)};
  const std::vector<Subtree> others = tree.others(rank, n);
  const bool has_output = spec.collective == all_reduce || rank == spec.root;
  // Scratch chunk s is as long as part s % n, so of each n chunks a rank uses one.
  const bool sum_kept = !has_output && others.size() > 1;
  const std::uint32_t chunks = most_kept(tree, others) + (sum_kept ? 1 : 0);
  if (chunks > 0) schedule.scratch_chunks = (chunks - 1) * index_of(n) + own + 1;
  const Places places{input(own), has_output ? output(own) : scratch(own),
                      own + (sum_kept ? index_of(n) : 0), index_of(n)};
  Step& last = sum_all(tree, rank, others, places, lane);
  if (!has_output) {
    last.into = {};
    last.target = spec.root;
    return schedule;
  }
  if (spec.collective == all_reduce) {
    last.target = peer(1);
    lane.repeat(2, n, [&](Rank i) { lane.send(output(own), peer(i)); });
  }
  lane.repeat(1, n, [&](Rank i) { lane.receive(peer(-i), output(index_of(peer(-i)))); });
  return schedule;
}

}  // namespace
}  // namespace ordered_shots

constinit const Algorithm kOneShotOrdered{"one_shot_ordered",
                                          "small messages where the order of sums is demanded",
                                          ordered_shots::supports_one_shot,
                                          ordered_shots::cost_of_one_shot,
                                          ordered_shots::build_one_shot,
                                          true,
                                          ordered_shots::in_tree_order,
                                          true};

constinit const Algorithm kTwoShotOrdered{"two_shot_ordered",
                                          "larger messages where the order of sums is demanded",
                                          ordered_shots::supports_two_shot,
                                          ordered_shots::cost_of_two_shot,
                                          ordered_shots::build_two_shot,
                                          false,
                                          ordered_shots::in_tree_order,
                                          true};

}  // namespace coll
