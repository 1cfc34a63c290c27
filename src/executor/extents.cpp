// SPDX-License-Identifier: Apache-2.0
// Where each step's data lies, worked out once per size of call.
#include "base/hash.hpp"
#include "executor/program.hpp"

namespace coll {
namespace {

StepExtent extent_of(const Program& program, const Extents& call, const BoundStep& step,
                     std::uint64_t elements) {
  const std::uint64_t first = std::min(step.length.part * call.windows.chunk, elements);
  const auto offset = [&](Space space, BoundOperand operand) {
    return (operand.block * call.period(space) + first) * call.element_bytes;
  };
  StepExtent extent;
  extent.from = offset(step.from_space, step.from);
  extent.with = offset(step.with_space, step.with);
  extent.into = offset(step.into_space, step.into);
  std::uint64_t sum = 0;
  for_each_stretch(call.windows, program.chunks.parts, step, elements,
                   [&](std::uint64_t, std::uint64_t, std::uint64_t n) { sum += n; });
  extent.elements = static_cast<std::uint32_t>(sum);
  extent.bytes = static_cast<std::uint32_t>(sum * call.element_bytes);
  bool one_piece = true;
  for (const Space space : {step.from_space, step.with_space, step.into_space}) {
    if (space == Space::none) continue;
    one_piece = one_piece && (step.length.part + step.count <= program.chunks.parts ||
                              elements == call.period(space));
  }
  extent.one_piece = one_piece;
  return extent;
}

StepExtent unequal_extent_of(const Program& program, const Extents& call, const BoundStep& step,
                             std::uint64_t pass) {
  StepExtent extent;
  if (step.count == 0) return extent;
  std::uint64_t sum = 0;
  bool one_piece = true;
  Fnv1a lengths;
  std::uint64_t next_from = 0, next_with = 0, next_into = 0;
  const auto begin = [&](std::uint64_t element) { return element * call.element_bytes; };
  for_each_unequal_stretch(call, program.chunks.parts, step, pass,
                           [&](std::uint64_t from, std::uint64_t with, std::uint64_t into,
                               std::uint64_t n, const BlockParts& of) {
                             lengths.word(of.block);
                             if (n == 0) return;
                             if (sum == 0) {
                               extent.from = begin(from);
                               extent.with = begin(with);
                               extent.into = begin(into);
                             } else {
                               one_piece = one_piece &&
                                           (step.from_space == Space::none || from == next_from) &&
                                           (step.with_space == Space::none || with == next_with) &&
                                           (step.into_space == Space::none || into == next_into);
                             }
                             next_from = from + n;
                             next_with = with + n;
                             next_into = into + n;
                             sum += n;
                           });
  extent.elements = static_cast<std::uint32_t>(sum);
  extent.bytes = static_cast<std::uint32_t>(sum * call.element_bytes);
  extent.one_piece = one_piece;
  // Folded: the hash's lower half depends on the lengths' lower halves only.
  extent.lengths = static_cast<std::uint32_t>(lengths.value() ^ lengths.value() >> 32);
  return extent;
}

/// The bytes of the step's messages in all passes.
std::uint64_t unequal_bytes_of(std::uint32_t parts, const Extents& call, const BoundStep& step) {
  const Windows& windows = call.windows;
  std::uint64_t sum = 0;
  for_each_unequal_stretch(
      call, parts, step, 0,
      [&](std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, const BlockParts& of) {
        const auto in = [&](std::uint64_t elements) {
          const auto before = [&](std::uint64_t part) {
            return std::min(part * windows.chunk, elements);
          };
          return before(of.part + of.parts) - before(of.part);
        };
        sum += of.block / windows.elements * in(windows.elements) + in(of.block % windows.elements);
      });
  return sum * call.element_bytes;
}

/// Elements of `count` chunks from part `first` on, in a window of `elements`.
std::uint64_t elements_of(const Windows& windows, std::uint64_t parts, std::uint64_t first,
                          std::uint64_t count, std::uint64_t elements) {
  const auto before = [&](std::uint64_t part) { return std::min(part * windows.chunk, elements); };
  const std::uint64_t end = first + count % parts;
  const std::uint64_t rest =
      end <= parts ? before(end) - before(first) : elements - before(first) + before(end - parts);
  return count / parts * elements + rest;
}

}  // namespace

Traffic Extents::traffic(const Program& program) const {
  Traffic traffic;
  if (blocks != nullptr) {
    for (const BoundStep& step : program.steps) {
      const std::uint64_t bytes = unequal_bytes_of(program.chunks.parts, *this, step);
      if (step.sends) traffic.sent += bytes;
      if (step.receives) traffic.received += bytes;
    }
    return traffic;
  }
  const std::size_t all = program.steps.size();
  for (std::size_t i = 0; i < all; ++i) {
    const std::uint64_t bytes = (windows.passes - 1) * steps[i].bytes + steps[all + i].bytes;
    if (program.steps[i].sends) traffic.sent += bytes;
    if (program.steps[i].receives) traffic.received += bytes;
  }
  return traffic;
}

Traffic traffic_of(const Schedule& schedule, const ProgramShape& shape, std::uint64_t count,
                   std::size_t element_bytes) {
  Extents cut;
  const std::uint32_t parts = schedule.chunks.parts;
  cut.windows = cut_windows(count, element_bytes, parts, shape.message_chunks, shape.slice_bytes,
                            shape.copies);
  const std::uint64_t full = cut.elements_of(0);
  const std::uint64_t last = cut.elements_of(cut.windows.passes - 1);
  Traffic traffic;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      const auto in = [&](std::uint64_t elements) {
        return elements_of(cut.windows, parts, step.named().chunk % parts, step.count, elements);
      };
      const std::uint64_t bytes = ((cut.windows.passes - 1) * in(full) + in(last)) * element_bytes;
      if (step.sends()) traffic.sent += bytes;
      if (step.receives()) traffic.received += bytes;
    }
  }
  return traffic;
}

Traffic traffic_of(const Schedule& schedule, const ProgramShape& shape, const UnequalBlocks& blocks,
                   std::size_t element_bytes) {
  Extents cut;
  const std::uint32_t parts = schedule.chunks.parts;
  cut.windows = cut_unequal_windows(blocks.longest_of_all, blocks.longest(), element_bytes, parts,
                                    shape.message_chunks, shape.slice_bytes, shape.copies);
  cut.element_bytes = element_bytes;
  cut.blocks = &blocks;
  Traffic traffic;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      if (step.count == 0) continue;
      const std::uint64_t bytes = unequal_bytes_of(parts, cut, bind_step(step, parts, 0, 0));
      if (step.sends()) traffic.sent += bytes;
      if (step.receives()) traffic.received += bytes;
    }
  }
  return traffic;
}

void Extents::make(const Program& program, std::uint64_t count, std::size_t bytes_of_element) {
  const std::size_t all = program.steps.size();
  steps.resize(2 * all);
  windows = cut_windows(count, bytes_of_element, program.chunks.parts, program.shape.message_chunks,
                        program.shape.slice_bytes, program.shape.copies);
  element_bytes = bytes_of_element;
  for (std::size_t step = 0; step < all; ++step) {
    steps[step] = extent_of(program, *this, program.steps[step], elements_of(0));
    steps[all + step] =
        extent_of(program, *this, program.steps[step], elements_of(windows.passes - 1));
  }
  blocks = nullptr;
}

void Extents::make(const Program& program, const UnequalBlocks& unequal,
                   std::size_t bytes_of_element) {
  std::size_t all = 0;
  for (const Program::Lane& lane : program.lanes) {
    all += static_cast<std::size_t>(lane.end - lane.begin);
  }
  steps.resize(all);
  windows = cut_unequal_windows(unequal.longest_of_all, unequal.longest(), bytes_of_element,
                                program.chunks.parts, program.shape.message_chunks,
                                program.shape.slice_bytes, program.shape.copies);
  element_bytes = bytes_of_element;
  blocks = &unequal;
}

void Extents::enter(const Program& program, const Program::Lane& lane, std::uint64_t pass,
                    StepExtent* extents) const {
  for (const BoundStep* step = lane.begin; step != lane.end; ++step) {
    *extents++ = unequal_extent_of(program, *this, *step, pass);
  }
}

}  // namespace coll
