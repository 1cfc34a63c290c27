// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: rings through all members of a group.
#pragma once
#include <vector>

#include "topology/pair_table.hpp"

namespace coll {

/// Members in the order of a ring, from member 0 on; the last one's next is the first.
using Ring = std::vector<int>;

/// The single best ring: as few hops as possible of the worst class that it needs, then of the next
/// better class, and so on (so a bottleneck is first avoided, then met as rarely as possible).
/// `classes` holds numbers from 0 (best) to 15. Exact up to 17 members (dynamic programming over
/// subsets: Held, Karp 1962, "A Dynamic Programming Approach to Sequencing Problems"); beyond, a
/// ring that no move of up to three members betters.
Ring best_ring(const PairTable& classes);

/// Rings that share no link.
struct RingPacking {
  std::vector<Ring> rings;
  int bound = 0;         ///< no more are possible: the fewest links into or out of a member
  bool optimal = false;  ///< as many as the bound, or the search was exhaustive
};

/// As many rings as `links` allow, where links.at(a, b) of them go from a to b. Deterministic.
RingPacking pack_rings(const PairTable& links);

}  // namespace coll
