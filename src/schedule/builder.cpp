// SPDX-License-Identifier: Apache-2.0
// schedule/: what a rank does, as a value without bytes. This file: the words algorithms are
// written in, as steps.
#include "schedule/builder.hpp"

#include <utility>

namespace coll {

Step& LaneBuilder::append(const Step& step) {
  return lane_->emplace_back(step);
}

Step& LaneBuilder::copy(Operand from, Operand into, std::uint32_t count) {
  return append({.from = from, .into = into, .count = count});
}

Step& LaneBuilder::send(Operand from, Rank target, std::uint32_t count) {
  return append({.target = target, .from = from, .count = count});
}

Step& LaneBuilder::receive(Rank source, Operand into, std::uint32_t count) {
  return append({.source = source, .into = into, .count = count});
}

Step& LaneBuilder::copy_send(Operand from, Operand into, Rank target, std::uint32_t count) {
  return append({.target = target, .from = from, .into = into, .count = count});
}

Step& LaneBuilder::receive_send(Rank source, Operand into, Rank target, std::uint32_t count) {
  return append({.source = source, .target = target, .into = into, .count = count});
}

Step& LaneBuilder::forward(Rank source, Rank target, std::uint32_t count) {
  return append({.source = source, .target = target, .count = count});
}

Step& LaneBuilder::reduce(Operand a, Operand b, Operand into, std::uint32_t count) {
  return append({.from = a, .with = b, .into = into, .count = count});
}

Step& LaneBuilder::receive_reduce(Rank source, Operand with, Operand into, std::uint32_t count) {
  return append({.source = source, .with = with, .into = into, .count = count});
}

Step& LaneBuilder::receive_reduce_send(Rank source, Operand with, Rank target,
                                       std::uint32_t count) {
  return append({.source = source, .target = target, .with = with, .count = count});
}

Step& LaneBuilder::receive_reduce_copy_send(Rank source, Operand with, Operand into, Rank target,
                                            std::uint32_t count) {
  return append({.source = source, .target = target, .with = with, .into = into, .count = count});
}

Step& LaneBuilder::signal(Rank target) {
  return append({.target = target, .count = 0});
}

Step& LaneBuilder::await(Rank source) {
  return append({.source = source, .count = 0});
}

Schedule start_schedule(std::string algorithm, const CollectiveSpec& spec, Rank rank,
                        std::uint32_t parts, std::uint32_t lanes, std::uint32_t scratch_chunks) {
  const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, rank);
  return {.algorithm = std::move(algorithm),
          .spec = spec,
          .rank = rank,
          .chunks = {.input_blocks = shape.input, .output_blocks = shape.output, .parts = parts},
          .scratch_chunks = scratch_chunks,
          .lanes = std::vector<Lane>(lanes)};
}

}  // namespace coll
