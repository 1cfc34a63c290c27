// SPDX-License-Identifier: Apache-2.0
// The chunk map: which elements a chunk index stands for.
#pragma once
#include <algorithm>
#include <cstdint>

#include "schedule/step.hpp"

namespace coll {

/// How the user's buffers are cut into chunks. A buffer has `blocks` equal blocks (one per rank
/// where the operation has them, else 1). Each block is cut into `parts` nearly equal parts. Chunk
/// c is part c % parts of block c / parts, so consecutive chunks of one block are contiguous in
/// memory.
struct ChunkMap {
  std::uint32_t input_blocks = 1;
  std::uint32_t output_blocks = 1;
  std::uint32_t parts = 1;

  [[nodiscard]] std::uint32_t blocks(Space space) const {
    return space == Space::input ? input_blocks : output_blocks;
  }
  [[nodiscard]] std::uint32_t chunks(Space space) const { return blocks(space) * parts; }
  friend bool operator==(const ChunkMap&, const ChunkMap&) = default;
};

/// The number of blocks that an operation's buffers have on `rank`. It is 0 if the rank has no such
/// buffer: the output of a non-root in reduce and gather, the input of a non-root in scatter and
/// broadcast.
struct BlockShape {
  std::uint32_t input = 0;
  std::uint32_t output = 0;
};
constexpr BlockShape block_shape(Collective collective, Rank ranks, Rank root, Rank rank) {
  const auto all = static_cast<std::uint32_t>(ranks);
  const bool at_root = rank == root;
  switch (collective) {
    case Collective::all_reduce:
      return {.input = 1, .output = 1};
    case Collective::reduce:
      return {.input = 1, .output = at_root ? 1U : 0U};
    case Collective::broadcast:
      return {.input = at_root ? 1U : 0U, .output = 1};
    case Collective::all_gather:
      return {.input = 1, .output = all};
    case Collective::reduce_scatter:
      return {.input = all, .output = 1};
    case Collective::all_to_all:
      return {.input = all, .output = all};
    case Collective::gather:
      return {.input = 1, .output = at_root ? all : 0U};
    case Collective::scatter:
      return {.input = at_root ? all : 0U, .output = 1};
    case Collective::send:
      return {.input = 1, .output = 0};
    case Collective::recv:
      return {.input = 0, .output = 1};
    case Collective::barrier:
      return {.input = 0, .output = 0};
  }
  return {};
}

/// Where the smaller buffer lies in an in-place call, with NCCL's rules: `offset_blocks` into the
/// larger buffer. The smaller buffer is the input, except in reduce_scatter and scatter, where it
/// is the output. `allowed` is false for all_to_all, and if the rank has only one of the two
/// buffers.
struct InPlace {
  bool allowed = false;
  bool input_inside_output = true;
  std::uint32_t offset_blocks = 0;

  /// The output chunk that coincides with an input chunk in an in-place call. A result that is
  /// negative or beyond the output means that none does.
  [[nodiscard]] std::int64_t output_chunk(std::uint32_t input_chunk, std::uint32_t parts) const {
    const std::int64_t shift = std::int64_t{offset_blocks} * parts;
    return input_inside_output ? input_chunk + shift : input_chunk - shift;
  }
};
InPlace in_place(Collective collective, Rank ranks, Rank root, Rank rank);

/// The elements [begin, end) of one part of a window of `elements`. The length of a part is a
/// multiple of `grain` elements; the last parts may be shorter or empty.
struct PartRange {
  std::uint64_t begin, end;
};
constexpr PartRange part_range(std::uint64_t elements, std::uint32_t parts, std::uint32_t part,
                               std::uint64_t grain) {
  const std::uint64_t each = ((elements + parts - 1) / parts + grain - 1) / grain * grain;
  return {std::min(each * part, elements), std::min(each * (part + 1), elements)};
}

}  // namespace coll
