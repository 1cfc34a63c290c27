// SPDX-License-Identifier: Apache-2.0
// Broadcast as a scatter and an all-gather.
//
// Algorithm: scatter_allgather, scatter_ring
// Idea: the data is cut into n chunks, chunk v for the v-th rank from the root. A binomial tree
//   brings each rank the chunks of its subtree. Then all ranks gather all chunks: in L rounds of
//   doubling distance, like bruck, or in a ring. Chunks that a rank has from the tree are not sent
//   to it again.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   scatter_allgather
//   broadcast | 3*L-1-even | 2*L-1-(n < 2**L-1) | 2*(n-1)/n | 1 | 0 | 0 | most | near
//   scatter_ring
//   broadcast | n-1+L | n-1 | 2*(n-1)/n | 1 | 0 | 0 | most | met
//   where even = n == 2**L/2+1 and n > 2; most = max(2**L//4, n-2**L//2);
//   met = min(n-1, max(L, log2ceil(n-2**L//2)+2))
// Wins: scatter_allgather: medium messages of many ranks; scatter_ring: larger messages, if
//   neighbours are near.
// Source: Barnett, Shuler, van de Geijn et al.: Interprocessor collective communication library
//   (SHPCC 1994); Thakur, Rabenseifner, Gropp (IJHPCA 2005), section 4.2; sending nothing twice:
//   Zhou et al.: A bandwidth-saving optimization for MPI broadcast (ICPP workshops 2015).
#include <algorithm>
#include <vector>

#include "collectives/knomial.hpp"
#include "collectives/patterns.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace scatter_allgather {
namespace {

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks >= 2 && spec.collective == Collective::broadcast;
}

/// Calls use(first, count) for the messages that `receiver` gets from `distance` places further on:
/// messages with the chunks gathered there that `receiver` lacks.
template <class Use>
void for_each_lacking(const KnomialTree& tree, Rank receiver, Rank distance, Use use) {
  const Rank count = std::min(distance, tree.ranks - distance);
  const Rank had_end = receiver + tree.size(receiver);
  for_each_piece(receiver + distance, count, tree.ranks, [&](Rank first, Rank length) {
    if (first < receiver || first + length > had_end) use(index_of(first), index_of(length));
  });
}

/// Chunks that place v+1 gets from place v on the ring: v, v-1, … down to those it has.
Rank ring_messages(const KnomialTree& tree, Rank v) {
  return tree.ranks - tree.size(wrapped(v + 1, tree.ranks));
}

/// Places as ranks, and a lane.
struct Builder {
  KnomialTree tree;
  Rank root, v;
  LaneBuilder lane;

  [[nodiscard]] Rank real(Rank place) const { return wrapped(place + root, tree.ranks); }

  /// From the caller's buffer where the rank is the root, whose output becomes whole on the way.
  void send_down(Rank chunk, Rank count, Rank place) {
    const auto at = index_of(chunk);
    if (v == 0) {
      lane.copy_send(input(at), output(at), real(place), index_of(count));
    } else {
      lane.send(output(at), real(place), index_of(count));
    }
  }

  void scatter() {
    if (v != 0) lane.receive(real(tree.parent(v)), output(index_of(v)), index_of(tree.size(v)));
    const std::vector<Rank> children = tree.children(v);
    for (std::size_t i = children.size(); i-- > 0;) {
      send_down(children[i], tree.size(children[i]), children[i]);
    }
  }

  void gather_doubling() {
    for (Rank distance = 1; distance < tree.ranks; distance *= 2) {
      const Rank to = wrapped(v - distance, tree.ranks);
      for_each_lacking(tree, to, distance, [&](std::uint32_t first, std::uint32_t count) {
        if (v == 0 && distance == 1) {
          send_down(0, 1, to);
        } else {
          lane.send(output(first), real(to), count);
        }
      });
      for_each_lacking(tree, v, distance, [&](std::uint32_t first, std::uint32_t count) {
        lane.receive(real(wrapped(v + distance, tree.ranks)), output(first), count);
      });
    }
  }

  void gather_ring() {
    const Rank n = tree.ranks;
    const Rank left = real(wrapped(v - 1, n));
    const Rank right = wrapped(v + 1, n);
    const Rank sends = ring_messages(tree, v);
    const Rank receives = ring_messages(tree, wrapped(v - 1, n));
    if (sends > 0) send_down(v, 1, right);
    lane.repeat(1, std::max(receives + 1, sends), [&](Rank i) {
      const auto chunk = output(index_of(wrapped(v - i, n)));
      if (i > receives) {
        lane.send(chunk, real(right));
      } else {
        lane.receive(left, chunk).target = i < sends ? real(right) : kNoRank;
      }
    });
  }
};

/// 2^(L-1)+1 ranks take one step less: their last round has no message that wraps.
Cost doubling_cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank n = spec.ranks;
  const Rank rounds = ceil_log2(n);
  const Rank full = Rank{1} << rounds;
  const bool even = n == full / 2 + 1 && n > 2;
  return {.rounds = static_cast<double>(2 * rounds - (n < full - 1 ? 2 : 1)),
          .sent = 2.0 * (n - 1) / n,
          .received = 1,
          .steps = index_of(3 * rounds - (even ? 2 : 1)),
          .message_chunks = index_of(KnomialTree{2, n}.largest_subtree()),
          .peers = power_of_two_neighbours(n),
          .chunks = index_of(n)};
}

Cost ring_cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  const Rank n = spec.ranks;
  const Rank rounds = ceil_log2(n);
  const Rank last_subtree = n - (Rank{1} << (rounds - 1));
  return {.rounds = static_cast<double>(n - 1),
          .sent = 2.0 * (n - 1) / n,
          .received = 1,
          .steps = index_of(n - 1 + rounds),
          .message_chunks = index_of(KnomialTree{2, n}.largest_subtree()),
          .peers = index_of(std::min(n - 1, std::max(rounds, ceil_log2(last_subtree) + 2))),
          .chunks = index_of(n)};
}

template <bool kRing>
Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  const Rank n = spec.ranks;
  Schedule schedule =
      start_schedule(kRing ? "scatter_ring" : "scatter_allgather", spec, rank, index_of(n));
  Builder builder{{2, n}, spec.root, wrapped(rank - spec.root, n), LaneBuilder(schedule.lanes[0])};
  builder.scatter();
  if (kRing) {
    builder.gather_ring();
  } else {
    builder.gather_doubling();
  }
  return schedule;
}

}  // namespace
}  // namespace scatter_allgather

constinit const Algorithm kScatterAllgather{
    "scatter_allgather", "medium messages, many ranks: twice the bytes, cut into short messages",
    scatter_allgather::supports, scatter_allgather::doubling_cost, scatter_allgather::build<false>};
constinit const Algorithm kScatterRing{
    "scatter_ring", "large messages, many ranks whose neighbours are near",
    scatter_allgather::supports, scatter_allgather::ring_cost, scatter_allgather::build<true>};

}  // namespace coll
