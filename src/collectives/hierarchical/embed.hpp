// SPDX-License-Identifier: Apache-2.0
// Embeds an algorithm's schedule for some of the ranks, a part, into a larger schedule, the whole.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "schedule/builder.hpp"

namespace coll {

/// Consecutive chunks.
struct Chunks {
  std::uint32_t first = 0, count = 0;
};

/// Maps `count` chunks from `chunk` on of a part's space to consecutive chunks of the whole. The
/// result has count 0 if the whole has nothing there. Then embed() leaves out the steps that would
/// move it, so both ends of a message must agree on that.
using Where = std::function<Chunks(std::uint32_t chunk, std::uint32_t count)>;

/// Where a space of the part lies in the whole.
struct EmbeddedSpace {
  Space space = Space::none;
  Where at{};
};

/// Maps chunk c to `width` chunks at `base` + `width` * c.
Where stretched(std::uint32_t base, std::uint32_t width);

/// Maps chunks to consecutive blocks of unequal lengths: block b has bounds[b+1] - bounds[b]
/// chunks. Chunk c is block `first` + c, and block 0 follows the last block. Chunk 0 is at `base`.
/// `bounds` must outlive the result.
Where blocks(const std::vector<std::uint32_t>& bounds, std::uint32_t base, std::uint32_t first = 0);

/// Where the ranks and chunks of a part are in the whole.
struct Embedding {
  std::span<const Rank> ranks{};  ///< the part's rank k is ranks[k]
  EmbeddedSpace input{}, output{}, scratch{};
  bool finishes = false;  ///< the part's reductions complete those of the whole
  bool empty = false;     ///< the part's messages carry no data; only their arrival matters
  /// Ranks and chunks are renamed by addition and multiplication only, so that repeats stay
  /// repeats.
  bool even = false;
  /// The part's first step may merge with the last step before it.
  bool joins = false;
};

/// Appends the steps of the part, which has one lane. Leaves out copies of a chunk onto itself.
void embed(const Schedule& part, const Embedding& embedding, Lane& lane);

}  // namespace coll
