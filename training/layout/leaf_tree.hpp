// SPDX-License-Identifier: Apache-2.0
// The balanced binary tree in which gradients of micro-batches (its leaves) are summed, one after
// another, with as few buffers as possible.
//
// ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7)): pairwise summation (Higham 1993, "The accuracy
// of floating point summation", SIAM J. Sci. Comput. 14(4), section 3) in the manner of a binary
// counter. Leaf i is written to level popcount(i); then it is added to the levels below it, one for
// each 1 at the end of i. Example with 8 leaves: leaf 5 = 101b goes to level 2, is added to level 1
// (g4), and stops: level 0 holds g0 to g3.
//
// Sums of 2^k leaves are whole sub-trees. So if each of 2^n ranks sums a run of 2^k leaves this
// way, and the ranks then reduce in the order of a tree (COLL_ORDER_TREE), the result has the bits
// that one rank gets from all leaves. The same holds if ranks first reduce leaf j * ranks + rank,
// and then sum the results over j.
#pragma once
#include <bit>
#include <cstddef>

namespace training {

/// Buffers that `leaves` need.
constexpr std::size_t levels_of(std::size_t leaves) {
  return static_cast<std::size_t>(std::bit_width(leaves));
}

/// Where leaf i is written.
constexpr std::size_t level_of(std::size_t leaf) {
  return static_cast<std::size_t>(std::popcount(leaf));
}

/// Once leaf i of `leaves` is complete, its level is added to the one below, and so on: so often.
/// The last leaf's sum goes down to level 0, where the result is.
constexpr std::size_t additions_of(std::size_t leaf, std::size_t leaves) {
  return leaf + 1 == leaves ? level_of(leaf) : static_cast<std::size_t>(std::countr_one(leaf));
}

}  // namespace training
