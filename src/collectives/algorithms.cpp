// SPDX-License-Identifier: Apache-2.0
// The table of all algorithms, and how their costs are put together.
#include "collectives/algorithms.hpp"

#include <algorithm>
#include <array>

#include "base/made_once.hpp"
#include "collectives/patterns.hpp"

namespace coll {

void Cost::raise_to(const Cost& other) {
  const auto raise = [&](auto... numbers) {
    ((this->*numbers = std::max(this->*numbers, other.*numbers)), ...);
  };
  raise(&Cost::rounds, &Cost::sent, &Cost::received, &Cost::reduced, &Cost::steps,
        &Cost::scratch_chunks, &Cost::message_chunks, &Cost::peers, &Cost::chunks);
}

void Cost::divide_by_chunks() {
  for (double* const bytes : {&sent, &received, &reduced}) *bytes /= chunks;
}

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
