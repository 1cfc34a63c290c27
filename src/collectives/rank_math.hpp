// SPDX-License-Identifier: Apache-2.0
// Arithmetic on ranks that several algorithms share.
#pragma once
#include <bit>
#include <cstdint>

#include "base/types.hpp"

namespace coll {

/// Converts a rank to a chunk index, or a number of ranks to a number of chunks.
constexpr std::uint32_t index_of(Rank rank) {
  return static_cast<std::uint32_t>(rank);
}

/// `rank` modulo `ranks`, in 0 … ranks-1; `rank` may be negative.
constexpr Rank wrapped(Rank rank, Rank ranks) {
  const Rank rest = rank % ranks;
  return rest < 0 ? rest + ranks : rest;
}

/// Ranks counted from the root. Of 2^k ranks by exclusive or: then the ranks of each pair, four,
/// eight … stay together, so that sums over them keep the order of SumOrder::tree.
constexpr Rank from_root(Rank rank, Rank root, Rank ranks) {
  return std::has_single_bit(static_cast<std::uint32_t>(ranks)) ? rank ^ root
                                                                : wrapped(rank - root, ranks);
}
/// The rank at a place counted from the root.
constexpr Rank rank_at(Rank place, Rank root, Rank ranks) {
  return std::has_single_bit(static_cast<std::uint32_t>(ranks)) ? place ^ root
                                                                : wrapped(place + root, ranks);
}

constexpr Rank floor_log2(Rank ranks) {
  return static_cast<Rank>(std::bit_width(index_of(ranks))) - 1;
}
/// The number of rounds in which a doubling set grows from one rank to all.
constexpr Rank ceil_log2(Rank ranks) {
  return static_cast<Rank>(std::bit_width(index_of(ranks) - 1));
}

/// The number of ranks at distances 1, 2, 4 … < ranks before and after a rank: two per power of
/// two. A rank that lies at such a distance in both directions (then `ranks` is a power or a sum of
/// two powers) counts once.
constexpr std::uint32_t power_of_two_neighbours(Rank ranks) {
  const std::uint32_t both = 2 * index_of(ceil_log2(ranks));
  const int powers = std::popcount(index_of(ranks));
  return powers == 1 ? both - 1 : powers == 2 ? both - 2 : both;
}

template <class... Collectives>
constexpr bool one_of(Collective collective, Collectives... listed) {
  return ((collective == listed) || ...);
}

/// Calls use(first, count) for each consecutive piece of the `count` indices from `first` on,
/// modulo `ranks`: one piece, or two if the range wraps. Both ends of a message cut alike if they
/// mean the same absolute indices.
template <class Use>
constexpr void for_each_piece(Rank first, Rank count, Rank ranks, Use use) {
  first = wrapped(first, ranks);
  const Rank before_wrap = count < ranks - first ? count : ranks - first;
  if (before_wrap > 0) use(first, before_wrap);
  if (count > before_wrap) use(Rank{0}, count - before_wrap);
}

}  // namespace coll
