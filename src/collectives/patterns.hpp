// SPDX-License-Identifier: Apache-2.0
// The algorithms that the files of this folder define, for the table in algorithms.cpp.
#pragma once
#include "collectives/algorithms.hpp"

namespace coll {

extern const Algorithm kLocal, kDirect, kOneShot, kTwoShot, kLinear, kPairwise, kRing,
    kNeighbourExchange, kChain, kBinomial, kKnomial4, kKnomial8, kDoubleBinaryTree, kBalancedTrees,
    kRecursiveDoubling, kRecursiveHalving, kRecursiveHalvingDoubling, kScatterAllgather,
    kScatterRing, kBruck, kCirculant, kDissemination, kHierarchicalRing, kHierarchicalHalving,
    kHierarchicalTree, kOneShotOrdered, kTwoShotOrdered;

}  // namespace coll
