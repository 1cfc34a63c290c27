// SPDX-License-Identifier: Apache-2.0
// The table of all algorithms.
#include "collectives/algorithms.hpp"

#include <array>

#include "base/made_once.hpp"
#include "collectives/patterns.hpp"

namespace coll {

std::span<const Algorithm> algorithms() {
  return made_once([] {
    return std::array{kLocal,
                      kDirect,
                      kOneShot,
                      kTwoShot,
                      kLinear,
                      kPairwise,
                      kRing,
                      kNeighbourExchange,
                      kChain,
                      kBinomial,
                      kKnomial4,
                      kKnomial8,
                      kDoubleBinaryTree,
                      kBalancedTrees,
                      kRecursiveDoubling,
                      kRecursiveHalving,
                      kRecursiveHalvingDoubling,
                      kScatterAllgather,
                      kScatterRing,
                      kCirculant,
                      kBruck,
                      kDissemination,
                      kHierarchicalRing,
                      kHierarchicalHalving,
                      kHierarchicalTree,
                      kOneShotOrdered,
                      kTwoShotOrdered};
  });
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace coll
