// SPDX-License-Identifier: Apache-2.0
// One rank's schedule among 65,536 takes little memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "built.hpp"
#include "collectives/rank_math.hpp"

namespace coll {
namespace {

constexpr Rank kMany[] = {1024, 65521, 65536};  ///< a prime among them

std::size_t stored(const Schedule& schedule) {
  std::size_t sum = 0;
  for (const Lane& lane : schedule.lanes) sum += lane.stored();
  return sum;
}

/// How many steps a rank's schedule may keep, however many it executes.
std::size_t most_stored(std::string_view algorithm, Collective collective, Rank ranks) {
  const auto rounds = static_cast<std::size_t>(ceil_log2(ranks));
  const auto is = [&](auto... names) { return ((algorithm == names) || ...); };
  // Rows of 1, 2, 4 … blocks in each round.
  if (algorithm == "bruck" && collective == Collective::all_to_all) return 2 * rounds * rounds;
  if (is("local", "direct", "chain", "double_binary_tree")) return 6;
  if (is("ring", "neighbour_exchange", "linear", "pairwise", "one_shot", "two_shot")) return 12;
  if (is("dissemination", "recursive_doubling", "recursive_halving")) return 2 * rounds + 2;
  if (algorithm == "scatter_ring") return rounds + 6;
  if (algorithm == "knomial_8") return 14 * (rounds / 3 + 1);
  return 6 * rounds;
}

TEST(Scale, AScheduleTakesLittleMemoryWhateverTheNumberOfRanks) {
  for (const Rank ranks : kMany) {
    const Layout layout = Layout::flat(ranks);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.for_order_only) continue;  // they walk a tree of all ranks, which is no line
      for (int i = 0; i < kCollectives; ++i) {
        const Collective collective = collective_at(i);
        for (const Rank root : {0, ranks / 3, ranks - 1}) {
          const CollectiveSpec spec{collective, ranks, root};
          if (!algorithm.supports(spec, layout) || (root > 0 && !has_root(collective))) continue;
          SCOPED_TRACE(describe(algorithm, spec));
          const std::size_t most = most_stored(algorithm.name, collective, ranks);
          std::size_t found = 0;
          for (const Rank rank :
               {0, 1, 2, ranks / 3, ranks / 3 + 1, ranks / 2, ranks - 2, ranks - 1}) {
            found = std::max(found, stored(algorithm.build(spec, layout, rank)));
          }
          EXPECT_LE(found, most);
        }
      }
    }
  }
}

}  // namespace
}  // namespace coll
