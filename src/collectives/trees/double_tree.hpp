// SPDX-License-Identifier: Apache-2.0
// The double binary tree: parents and children in two trees, leaves of one being inner in the
// other.
#pragma once
#include <array>
#include <bit>

#include "collectives/rank_math.hpp"

namespace coll {

/// One place's neighbours in one of the trees. Places are 0, the root, and 1 … ranks-1.
struct TreeNeighbours {
  Rank parent = kNoRank;
  std::array<Rank, 2> children{kNoRank, kNoRank};  ///< the first is present if any is
};

/// The first tree: an in-order binary tree, odd places are leaves.
inline TreeNeighbours in_order_tree(Rank v, Rank ranks) {
  TreeNeighbours near;
  if (v == 0) {
    near.children[0] = static_cast<Rank>(std::bit_floor(index_of(ranks - 1)));
    return near;
  }
  const Rank bit = v & -v;
  const Rank up = (v ^ bit) | (bit << 1);
  near.parent = up < ranks ? up : v ^ bit;
  if (bit == 1) return near;
  near.children[0] = v - bit / 2;
  Rank step = bit / 2;
  while (step > 0 && v + step >= ranks) step /= 2;
  if (step > 0) near.children[1] = v + step;
  return near;
}

/// The second tree is the first with the places 1 … ranks-1 renamed so that odd and even swap:
/// mirrored if they are even in number, else moved on by one.
inline TreeNeighbours in_double_tree(int tree, Rank v, Rank ranks) {
  if (tree == 0) return in_order_tree(v, ranks);
  const bool mirror = ranks % 2 == 1;
  const auto renamed = [&](Rank place) {
    if (place <= 0) return place;
    return mirror ? ranks - place : place % (ranks - 1) + 1;
  };
  const Rank original = v == 0 ? 0 : mirror ? ranks - v : v == 1 ? ranks - 1 : v - 1;
  TreeNeighbours near = in_order_tree(original, ranks);
  near.parent = renamed(near.parent);
  for (Rank& child : near.children) child = renamed(child);
  return near;
}

}  // namespace coll
