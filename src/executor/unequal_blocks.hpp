// SPDX-License-Identifier: Apache-2.0
// The blocks of a call that have different lengths.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "schedule/step.hpp"

namespace coll {

/// The blocks of the user's buffers, in elements. A call of equal blocks has none. Whoever keeps a
/// call keeps its blocks.
struct UnequalBlocks : std::enable_shared_from_this<UnequalBlocks> {
  struct Block {
    std::uint64_t count = 0;
    std::uint64_t offset = 0;  ///< from the buffer's begin
    friend bool operator==(const Block&, const Block&) = default;
  };
  std::vector<Block> input, output;
  /// The longest block of any rank, where all ranks know all lengths; else 0: each rank knows only
  /// what it gives and gets.
  std::uint64_t longest_of_all = 0;
  std::uint64_t known = 0;  ///< a hash of what all ranks know of the lengths

  [[nodiscard]] std::span<const Block> of(Space space) const {
    return space == Space::input ? input : output;
  }
  /// The elements of all blocks, and where the first begins and the last ends.
  struct Reach {
    std::uint64_t count = 0;
    std::uint64_t begin = 0, end = 0;
  };
  [[nodiscard]] Reach reach(Space space) const {
    Reach all;
    for (const Block& block : of(space)) {
      if (block.count == 0) continue;
      all.begin = all.count == 0 ? block.offset : std::min(all.begin, block.offset);
      all.end = std::max(all.end, block.offset + block.count);
      all.count += block.count;
    }
    return all;
  }
  /// The longest block of this rank.
  [[nodiscard]] std::uint64_t longest() const {
    std::uint64_t most = 0;
    for (const Block& block : input) most = std::max(most, block.count);
    for (const Block& block : output) most = std::max(most, block.count);
    return most;
  }
  friend bool operator==(const UnequalBlocks& a, const UnequalBlocks& b) {
    return a.input == b.input && a.output == b.output && a.longest_of_all == b.longest_of_all &&
           a.known == b.known;
  }
};

}  // namespace coll
