// SPDX-License-Identifier: Apache-2.0
// Which elements a chunk index means.
#pragma once
#include <algorithm>
#include <cstdint>

#include "schedule/step.hpp"

namespace coll {

/// How the user's buffers are cut. A buffer is `blocks` equal blocks (one per rank where the
/// operation has them, else 1), each cut into `parts` nearly equal parts; chunk c is part c % parts
/// of block c / parts, so consecutive chunks of one block are contiguous in memory.
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

/// The blocks an operation's buffers have on `rank`; 0 where the rank has no such buffer
/// (output of a non-root in reduce and gather, input of a non-root in scatter and broadcast).
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

/// Where in-place calls put the input inside the output (or, for reduce_scatter and scatter, the
/// output inside the input), as NCCL has it: `offset_blocks` into the larger buffer. `allowed` is
/// false for all_to_all, and where the rank has only one of the two buffers.
struct InPlace {
  bool allowed = false;
  bool input_inside_output = true;
  std::uint32_t offset_blocks = 0;

  /// The output's chunk that is this one of the input in such a call; none where it is negative, or
  /// beyond the output.
  [[nodiscard]] std::int64_t output_chunk(std::uint32_t input_chunk, std::uint32_t parts) const {
    const std::int64_t shift = std::int64_t{offset_blocks} * parts;
    return input_inside_output ? input_chunk + shift : input_chunk - shift;
  }
};
InPlace in_place(Collective collective, Rank ranks, Rank root, Rank rank);

/// The elements of one part: [begin, end) of a window of `elements`, cut into parts whose length is
/// a multiple of `grain` elements (the last ones may be shorter or empty).
struct PartRange {
  std::uint64_t begin, end;
};
constexpr PartRange part_range(std::uint64_t elements, std::uint32_t parts, std::uint32_t part,
                               std::uint64_t grain) {
  const std::uint64_t each = ((elements + parts - 1) / parts + grain - 1) / grain * grain;
  return {std::min(each * part, elements), std::min(each * (part + 1), elements)};
}

}  // namespace coll
