// SPDX-License-Identifier: Apache-2.0
// Rings through all members of a group.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/pair_table.hpp"

namespace coll {

/// Members in the order of a ring, from member 0 on; the last one's next is the first.
using Ring = std::vector<int>;

/// How much searches may look at, together, before they take the best they have. It counts entries
/// of tables and no time, so that all ranks find the same.
struct SearchBudget {
  std::int64_t left = 1'000'000'000;  ///< about a second
  bool spent = false;                 ///< something was left out

  /// False: that would be too many; the search shall end.
  bool take(std::int64_t looks) {
    if (looks > left) {
      spent = true;
      return false;
    }
    left -= looks;
    return true;
  }
};

/// Among more GPUs of a host than this no ring is looked for: they are taken in order.
inline constexpr std::size_t kMostSearched = 256;

/// The single best ring: as few hops as possible of the worst class that it needs, then of the next
/// better class, and so on (so a bottleneck is first avoided, then met as rarely as possible).
/// `classes` holds numbers from 0 (best) to 15. Exact up to 17 members (dynamic programming over
/// subsets: Held, Karp 1962, "A Dynamic Programming Approach to Sequencing Problems"); beyond, a
/// ring that no move of up to three members betters. Where the budget ends, the best so far.
Ring best_ring(const PairTable& classes, SearchBudget& budget);
inline Ring best_ring(const PairTable& classes) {
  SearchBudget budget;
  return best_ring(classes, budget);
}

/// Rings that share no link.
struct RingPacking {
  std::vector<Ring> rings;
  int bound = 0;         ///< no more are possible: the fewest links into or out of a member
  bool optimal = false;  ///< as many as the bound, or the search was exhaustive
};

/// More rings than this are not packed: more than any machine can use at once.
inline constexpr std::size_t kMostPacked = 256;

/// As many rings as `links` allow, where links.at(a, b) of them go from a to b. Deterministic.
/// Where the budget ends, those found so far.
RingPacking pack_rings(const PairTable& links, SearchBudget& budget);
inline RingPacking pack_rings(const PairTable& links) {
  SearchBudget budget;
  return pack_rings(links, budget);
}

}  // namespace coll
