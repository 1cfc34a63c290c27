// SPDX-License-Identifier: Apache-2.0
// The blocks of each operation's buffers, and where they may lie in each other.
#include "schedule/chunk_map.hpp"

namespace coll {

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
