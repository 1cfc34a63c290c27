// SPDX-License-Identifier: Apache-2.0
// The k-nomial tree: parents, children, subtrees.
#pragma once
#include <algorithm>
#include <vector>

#include "collectives/rank_math.hpp"

namespace coll {

/// The k-nomial tree over ranks 0 … ranks-1 with root 0, where ranks are numbers in base `radix`.
/// The parent of v is v with its lowest nonzero digit cleared, so the subtree of v is the range v …
/// v+size(v)-1. Radix 2 gives the binomial tree.
struct KnomialTree {
  Rank radix;
  Rank ranks;

  /// The power of the radix at v's lowest nonzero digit; at least `ranks` for the root.
  [[nodiscard]] constexpr Rank place_value(Rank v) const {
    Rank power = 1;
    while (power < ranks && v % (power * radix) == 0) power *= radix;
    return power;
  }
  [[nodiscard]] constexpr Rank parent(Rank v) const { return v - v % (place_value(v) * radix); }
  [[nodiscard]] constexpr Rank size(Rank v) const {
    return v == 0 ? ranks : std::min(place_value(v), ranks - v);
  }
  /// The children of v, smallest subtree first, because small subtrees finish their sums first. A
  /// rank that distributes goes through them backwards.
  [[nodiscard]] std::vector<Rank> children(Rank v) const {
    std::vector<Rank> list;
    const Rank limit = v == 0 ? ranks : place_value(v);
    for (Rank power = 1; power < limit; power *= radix) {
      for (Rank digit = 1; digit < radix && v + digit * power < ranks; ++digit) {
        list.push_back(v + digit * power);
      }
    }
    return list;
  }
  /// The number of edges from the root to the farthest rank: the most nonzero digits of any rank.
  [[nodiscard]] constexpr Rank depth() const {
    Rank most = 0;
    for (Rank v = 0; v < ranks; ++v) {
      Rank digits = 0;
      for (Rank rest = v; rest > 0; rest /= radix) digits += rest % radix != 0 ? 1 : 0;
      most = std::max(most, digits);
    }
    return most;
  }
  /// The number of ranks in the largest subtree below the root.
  [[nodiscard]] Rank largest_subtree() const {
    Rank most = 0;
    for (const Rank child : children(0)) most = std::max(most, size(child));
    return most;
  }
};

}  // namespace coll
