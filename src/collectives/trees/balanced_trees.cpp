// SPDX-License-Identifier: Apache-2.0
// Balanced trees: a double binary tree of hosts for each ring of the layout, chains inside hosts.
//
// Algorithm: balanced_trees
// Idea: each ring of the layout passes through a host along a path, from the rank next to the
//   ring's NIC on. In a tree this path is a chain below its first rank, the host's head, and the
//   heads form a binary tree of hosts. For each ring there are two such trees, so that a host with
//   children in one has none in the other. Each tree moves its part of the data on lanes of its
//   own, so all NICs work at once, and equally hard. Sums go up, copies go down; all_reduce has a
//   lane for each. In the root's host the chain is hung up at the root. On one host with several
//   rings there are no heads: each tree is the ring's order as a chain from the root on.
// Cost: counted in the built schedules; rounds are those of the deepest tree.
// Wins: large messages to or from one root, and all_reduce over many hosts with several NICs: a
//   ring's bytes in a tree's rounds. Only with several hosts, at least one of which has several
//   ranks, or one host with several rings.
// Source: Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and
//   scan (Parallel Computing 2009); chains inside hosts, a tree for each NIC: NCCL's "tree".
#include <algorithm>
#include <set>

#include "collectives/patterns.hpp"
#include "collectives/ring_order.hpp"
#include "collectives/trees/double_tree.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace balanced_trees {
namespace {

using enum Collective;

constexpr Rank kEveryRank = 64;  ///< up to here the busiest rank is looked for among all

/// One rank's neighbours in one tree. Children in the order in which their sums are ready.
struct Branch {
  Rank parent = kNoRank;
  std::vector<Rank> children;
};

/// All trees of a layout.
class BalancedTrees {
 public:
  BalancedTrees(const CollectiveSpec& spec, const Layout& layout)
      : spec_(spec), layout_(layout), starts_{0} {
    for (const std::vector<Rank>& members : layout.members) {
      starts_.push_back(starts_.back() + static_cast<Rank>(members.size()));
    }
  }

  /// For one or two hosts both trees would be the same.
  [[nodiscard]] std::uint32_t of_a_ring() const { return layout_.hosts() > 2 ? 2 : 1; }
  [[nodiscard]] std::uint32_t count() const {
    return of_a_ring() * static_cast<std::uint32_t>(layout_.rings.size());
  }

  [[nodiscard]] Branch branch(std::uint32_t tree, Rank rank) const {
    const std::vector<Rank>& ring = layout_.rings[tree / of_a_ring()];
    const Rank root = spec_.collective == all_reduce ? ring.front() : spec_.root;
    if (layout_.hosts() == 1) return in_chain(RingOrder(ring, root), rank);
    const Rank hosts = layout_.hosts(), host = host_of(rank), root_host = host_of(root);
    const Rank place = place_in_host(ring, rank);
    const Rank hung_at = host == root_host ? place_in_host(ring, root) : 0;
    const auto at = [&](Rank in_host) { return ring[index_of(start(host) + in_host)]; };
    const auto head = [&](Rank v) { return ring[index_of(start(wrapped(v + root_host, hosts)))]; };
    const TreeNeighbours near = in_double_tree(static_cast<int>(tree % of_a_ring()),
                                               wrapped(host - root_host, hosts), hosts);

    Branch found;
    if (place > hung_at) found.parent = at(place - 1);
    if (place < hung_at) found.parent = at(place + 1);
    if (place >= hung_at && place + 1 < size(host)) found.children.push_back(at(place + 1));
    if (place <= hung_at && place > 0) found.children.push_back(at(place - 1));
    if (place > 0) return found;
    if (host != root_host) found.parent = head(near.parent);
    for (const Rank child : near.children) {
      if (child != kNoRank) found.children.push_back(head(child));
    }
    return found;
  }

  /// The number of edges on the longest way from the root.
  [[nodiscard]] Rank depth() const {
    Rank most = layout_.hosts() == 1 ? layout_.ranks() - 1 : 0;
    for (std::uint32_t tree = 0; tree < count() && layout_.hosts() > 1; ++tree) {
      const std::vector<Rank>& ring = layout_.rings[tree / of_a_ring()];
      const Rank root = spec_.collective == all_reduce ? ring.front() : spec_.root;
      const Rank hosts = layout_.hosts(), hung_at = place_in_host(ring, root);
      most = std::max(most, size(host_of(root)) - 1 - hung_at);
      for (Rank v = 1; v < hosts; ++v) {
        Rank above = hung_at;
        for (Rank up = v; up > 0; ++above) {
          up = in_double_tree(static_cast<int>(tree % of_a_ring()), up, hosts).parent;
        }
        most = std::max(most, above + size(wrapped(v + host_of(root), hosts)) - 1);
      }
    }
    return most;
  }

 private:
  static Branch in_chain(const RingOrder& order, Rank rank) {
    Branch found;
    const Rank place = order.place_of(rank);
    if (place > 0) found.parent = order.rank_at(place - 1);
    if (place + 1 < order.ranks()) found.children.push_back(order.rank_at(place + 1));
    return found;
  }
  [[nodiscard]] Rank host_of(Rank rank) const { return layout_.host[index_of(rank)]; }
  [[nodiscard]] Rank start(Rank host) const { return starts_[index_of(host)]; }
  [[nodiscard]] Rank size(Rank host) const { return start(host + 1) - start(host); }
  [[nodiscard]] Rank place_in_host(const std::vector<Rank>& ring, Rank rank) const {
    const auto first = ring.begin() + start(host_of(rank));
    return static_cast<Rank>(std::find(first, ring.end(), rank) - first);
  }

  const CollectiveSpec& spec_;
  const Layout& layout_;
  std::vector<Rank> starts_;  ///< by host: where its ranks begin in every ring; one more at the end
};

bool supports(const CollectiveSpec& spec, const Layout& layout) {
  const bool several_hosts = layout.hosts() > 1 && layout.hosts() < layout.ranks();
  const bool several_rings = layout.hosts() == 1 && layout.rings.size() > 1;
  return spec.ranks >= 2 && spec.ranks == layout.ranks() && (several_hosts || several_rings) &&
         one_of(spec.collective, all_reduce, broadcast, reduce);
}

/// The sums of all children and the own input, on their way up.
void go_up(const Branch& near, std::uint32_t part, Schedule& schedule, Lane& up) {
  LaneBuilder lane(up);
  Operand with = input(part);
  for (std::size_t i = 0; i + 1 < near.children.size(); ++i) {
    Operand partial = output(part);
    if (schedule.spec.collective == reduce) {
      partial = scratch(part);
      schedule.scratch_chunks = part + 1;
    }
    lane.receive_reduce(near.children[i], with, partial);
    with = partial;
  }
  if (near.parent == kNoRank) {
    lane.receive_reduce(near.children.back(), with, output(part)).finish = true;
  } else if (near.children.empty()) {
    lane.send(with, near.parent);
  } else {
    lane.receive_reduce_send(near.children.back(), with, near.parent);
  }
}

/// Copies go to other hosts first, which have the longest way to go. `after`: of all_reduce, the
/// lane that goes up; it still reads and writes these chunks.
void go_down(const Branch& near, std::uint32_t part, const Lane* after, std::uint32_t lane_number,
             Lane& down) {
  LaneBuilder lane(down);
  std::vector<Rank> children(near.children.rbegin(), near.children.rend());
  const Rank next = children.empty() ? kNoRank : children.front();
  Step& first = near.parent == kNoRank ? after != nullptr
                                             ? lane.send(output(part), next)
                                             : lane.copy_send(input(part), output(part), next)
                : next == kNoRank ? lane.receive(near.parent, output(part))
                                       : lane.receive_send(near.parent, output(part), next);
  if (after != nullptr) {
    first.wait_lane = static_cast<std::int16_t>(lane_number);
    first.wait_step = static_cast<std::int32_t>(after->size()) - 1;
  }
  for (std::size_t i = 1; i < children.size(); ++i) lane.send(output(part), children[i]);
}

Schedule build(const CollectiveSpec& spec, const Layout& layout, Rank rank) {
  const BalancedTrees trees(spec, layout);
  const bool both = spec.collective == all_reduce;
  Schedule schedule =
      start_schedule("balanced_trees", spec, rank, trees.count(), (both ? 2 : 1) * trees.count());
  for (std::uint32_t tree = 0; tree < trees.count(); ++tree) {
    const Branch near = trees.branch(tree, rank);
    const std::uint32_t up = both ? 2 * tree : tree, down = both ? up + 1 : tree;
    if (spec.collective != broadcast) go_up(near, tree, schedule, schedule.lanes[up]);
    if (spec.collective != reduce) {
      go_down(near, tree, both ? &schedule.lanes[up] : nullptr, up, schedule.lanes[down]);
    }
  }
  return schedule;
}

/// What a rank's own steps cost, in chunks.
Cost counted(const BalancedTrees& trees, Rank rank, Collective collective) {
  Cost cost{.chunks = trees.count()};
  const bool up = collective != broadcast, down = collective != reduce;
  for (std::uint32_t tree = 0; tree < trees.count(); ++tree) {
    const Branch near = trees.branch(tree, rank);
    const auto children = static_cast<std::uint32_t>(near.children.size());
    const std::uint32_t parent = near.parent == kNoRank ? 0 : 1;
    cost.sent += (up ? parent : 0) + (down ? children : 0);
    cost.received += (up ? children : 0) + (down ? parent : 0);
    cost.reduced += up ? children : 0;
    const std::uint32_t steps = std::max(1U, children);
    cost.steps += (up ? steps : 0) + (down ? steps : 0);
    cost.peers += ((up ? 1U : 0U) + (down ? 1U : 0U)) * (parent + children);
    if (collective == reduce && children > 1) cost.scratch_chunks = tree + 1;
  }
  return cost;
}

/// The cost is counted: each tree may have another busiest rank. Among many ranks only the ranks of
/// some hosts are counted, as in hierarchical algorithms; others may have a few steps more.
Cost cost(const CollectiveSpec& spec, const Layout& layout) {
  const BalancedTrees trees(spec, layout);
  std::set<Rank> looked_at{spec.root};
  const Rank hosts = layout.hosts(), root_host = layout.host[index_of(spec.root)];
  for (Rank rank = 0; rank < std::min(spec.ranks, kEveryRank); ++rank) looked_at.insert(rank);
  for (const Rank from : {root_host, root_host + hosts / 2, root_host - 4}) {
    for (Rank i = 0; i < 4; ++i) {
      const std::vector<Rank>& members = layout.members_of(wrapped(from + i, hosts));
      looked_at.insert(members.begin(),
                       members.begin() + std::min<std::ptrdiff_t>(kEveryRank, std::ssize(members)));
    }
  }
  Cost most;
  for (const Rank rank : looked_at) most.raise_to(counted(trees, rank, spec.collective));
  most.divide_by_chunks();
  most.rounds = (spec.collective == all_reduce ? 2.0 : 1.0) * trees.depth();
  return most;
}

}  // namespace
}  // namespace balanced_trees

constinit const Algorithm kBalancedTrees{
    "balanced_trees",
    "large messages, several hosts: a tree over each NIC, a ring's bytes in few rounds",
    balanced_trees::supports, balanced_trees::cost, balanced_trees::build};

}  // namespace coll
