// SPDX-License-Identifier: Apache-2.0
// An algorithm's schedule for some of the ranks as a part of a larger one.
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

/// What `count` chunks from `chunk` on of a part's space are in the whole; consecutive again. None
/// where the whole has nothing there: then the steps that would move it are left out, so both ends
/// of a message must agree on it.
using Where = std::function<Chunks(std::uint32_t chunk, std::uint32_t count)>;

/// A part's space as a piece of the whole's.
struct Window {
  Space space = Space::none;
  Where at{};
};

/// Chunk c is `width` chunks, `width` * c after `base`.
Where stretched(std::uint32_t base, std::uint32_t width);

/// Blocks of unequal lengths, one after the other: block b has bounds[b+1] - bounds[b] chunks.
/// Chunk c is block `first` + c, after the last one comes the first again; chunk 0 is at `base`.
/// `bounds` must outlive it.
Where blocks(const std::vector<std::uint32_t>& bounds, std::uint32_t base, std::uint32_t first = 0);

/// Where a part's ranks and chunks are in the whole.
struct Embedding {
  std::span<const Rank> ranks{};  ///< the part's rank k is ranks[k]
  Window input{}, output{}, scratch{};
  bool finishes = false;  ///< its reductions complete those of the whole
  bool empty = false;     ///< of its messages only that they come; no data
  /// Ranks and chunks are renamed by adding and multiplying, so that repeats stay repeats.
  bool even = false;
  /// Its first step may become one with the last one before it.
  bool joins = false;
};

/// Appends the part's steps, which are one lane. Copies of chunks onto themselves are left out.
void embed(const Schedule& part, const Embedding& embedding, Lane& lane);

}  // namespace coll
