// SPDX-License-Identifier: Apache-2.0
// schedule/: what a rank does, as a value without bytes. This file: the blocks of each operation's
// buffers, and where they may lie in each other.
#include "schedule/chunk_map.hpp"

namespace coll {

BlockShape block_shape(Collective collective, Rank ranks, Rank root, Rank rank) {
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

InPlace in_place(Collective collective, Rank ranks, Rank root, Rank rank) {
  const BlockShape shape = block_shape(collective, ranks, root, rank);
  if (shape.input == 0 || shape.output == 0 || collective == Collective::all_to_all) return {};
  // The smaller buffer is this rank's block of the larger one; of equal ones, the same pointer.
  const bool same_size = shape.input == shape.output;
  return {.allowed = true,
          .input_inside_output = shape.input <= shape.output,
          .offset_blocks = same_size ? 0U : static_cast<std::uint32_t>(rank)};
}

}  // namespace coll
