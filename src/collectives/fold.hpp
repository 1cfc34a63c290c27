// SPDX-License-Identifier: Apache-2.0
// How patterns for powers of two take any number of ranks.
#pragma once
#include <bit>

#include "collectives/rank_math.hpp"

namespace coll {

/// The largest power of two ranks, the core, plays; each of the `folded` remaining ranks, an extra,
/// hands its data to a core rank before, and gets the result after (Rabenseifner, Traeff 2004,
/// section 2). Extras are the odd ones of the first 2 * folded ranks, their core ranks the even
/// ones, so ranges of core ranks are ranges of ranks.
struct Fold {
  Rank core;    ///< largest power of two <= ranks
  Rank folded;  ///< ranks - core
  Rank rounds;  ///< log2(core)

  explicit constexpr Fold(Rank ranks)
      : core(static_cast<Rank>(std::bit_floor(index_of(ranks)))),
        folded(ranks - core),
        rounds(floor_log2(ranks)) {}

  /// Rounds of an exchange at all distances with one message before and one after it for extras: a
  /// chain from extra to extra has them all only if the core has extras in both its halves.
  [[nodiscard]] constexpr Rank rounds_with_extras() const {
    return rounds + (folded > 0 ? 1 : 0) + (folded > core / 2 ? 1 : 0);
  }
  [[nodiscard]] constexpr bool is_extra(Rank rank) const {
    return rank < 2 * folded && rank % 2 == 1;
  }
  /// The place of a rank, or of an extra's core rank, in the core.
  [[nodiscard]] constexpr Rank place(Rank rank) const {
    return rank < 2 * folded ? rank / 2 : rank - folded;
  }
  /// The rank in a place; places begin..end-1 stand for the ranks from first(begin) to
  /// first(end)-1, extras included.
  [[nodiscard]] constexpr Rank first(Rank place) const {
    return place < folded ? 2 * place : place + folded;
  }
  [[nodiscard]] constexpr bool has_extra(Rank place) const { return place < folded; }
};

}  // namespace coll
