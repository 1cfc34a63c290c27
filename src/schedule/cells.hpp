// SPDX-License-Identifier: Apache-2.0
// The verifier's model of a rank's memory, one cell per chunk.
#pragma once
#include <algorithm>

#include "schedule/schedule.hpp"

namespace coll {

/// Numbers the chunks of a rank's spaces as cells: 0 … data-1 for input and output, then scratch.
/// In an allowed in-place call, a chunk of the smaller buffer shares the number of the chunk that
/// it coincides with.
struct Cells {
  std::uint32_t input = 0, output = 0;  ///< first cell of each
  std::uint32_t data = 0;               ///< cells of input and output; scratch begins here
  std::uint32_t all = 0;

  Cells(const Schedule& schedule, bool aliased) {
    const ChunkMap& chunks = schedule.chunks;
    const std::uint32_t inputs = chunks.chunks(Space::input);
    const std::uint32_t outputs = chunks.chunks(Space::output);
    const CollectiveSpec& spec = schedule.spec;
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
    if (aliased && place.allowed) {
      (place.input_inside_output ? input : output) = place.offset_blocks * chunks.parts;
      data = std::max(inputs, outputs);
    } else {
      output = inputs;
      data = inputs + outputs;
    }
    all = data + schedule.scratch_chunks;
  }
  [[nodiscard]] std::uint32_t at(const Operand& operand) const {
    if (operand.space == Space::input) return input + operand.chunk;
    return (operand.space == Space::output ? output : data) + operand.chunk;
  }
};

}  // namespace coll
