// SPDX-License-Identifier: Apache-2.0
// Folding: how a pattern for powers of two serves any number of ranks.
#pragma once
#include <bit>

#include "collectives/rank_math.hpp"

namespace coll {

/// The core, the largest power of two ranks, runs the pattern. Each of the `folded` remaining ranks
/// is an extra: it gives its data to a core rank before the pattern and gets the result after it
/// (Rabenseifner, Traeff 2004, section 2). Among the first 2 * folded ranks the odd ones are extras
/// and the even ones their core ranks, so ranges of core ranks are ranges of ranks.
struct Fold {
  Rank core;    ///< largest power of two <= ranks
  Rank folded;  ///< ranks - core
  Rank rounds;  ///< log2(core)

  explicit constexpr Fold(Rank ranks)
      : core(static_cast<Rank>(std::bit_floor(index_of(ranks)))),
        folded(ranks - core),
        rounds(floor_log2(ranks)) {}

  /// The rounds of an exchange at all distances, with one message before and one after it for
  /// extras. A chain from extra to extra contains both only if both halves of the core have extras.
  [[nodiscard]] constexpr Rank rounds_with_extras() const {
    return rounds + (folded > 0 ? 1 : 0) + (folded > core / 2 ? 1 : 0);
  }
  [[nodiscard]] constexpr bool is_extra(Rank rank) const {
    return rank < 2 * folded && rank % 2 == 1;
  }
  /// The place in the core of a rank or, for an extra, of its core rank.
  [[nodiscard]] constexpr Rank place(Rank rank) const {
    return rank < 2 * folded ? rank / 2 : rank - folded;
  }
  /// The rank at a place of the core. Places begin..end-1 stand for ranks first(begin) to
  /// first(end)-1, extras included.
  [[nodiscard]] constexpr Rank first(Rank place) const {
    return place < folded ? 2 * place : place + folded;
  }
  [[nodiscard]] constexpr bool has_extra(Rank place) const { return place < folded; }
};

}  // namespace coll
