// SPDX-License-Identifier: Apache-2.0
// The order of a layout's ring, counted from one of its ranks.
#pragma once
#include <algorithm>
#include <vector>

#include "collectives/rank_math.hpp"

namespace coll {

/// Where a rank stands in a ring of all ranks.
inline Rank place_in(const std::vector<Rank>& ring, Rank rank) {
  const bool at_home = ring[index_of(rank)] == rank;  // most rings are in the order of ranks
  return at_home ? rank : static_cast<Rank>(std::ranges::find(ring, rank) - ring.begin());
}

/// The ranks in the order of a ring; the rank at place 0 is `first`.
class RingOrder {
 public:
  RingOrder(const std::vector<Rank>& ring, Rank first)
      : ring_(&ring), first_(place_in(ring, first)) {}

  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(ring_->size()); }
  /// `place` modulo the number of ranks; it may be negative.
  [[nodiscard]] Rank rank_at(Rank place) const {
    return (*ring_)[index_of(wrapped(place + first_, ranks()))];
  }
  [[nodiscard]] Rank place_of(Rank rank) const {
    return wrapped(place_in(*ring_, rank) - first_, ranks());
  }

 private:
  const std::vector<Rank>* ring_;
  Rank first_;
};

}  // namespace coll
