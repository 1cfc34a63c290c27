// SPDX-License-Identifier: Apache-2.0
// Where each step's data lies, worked out once per size of call.
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

}  // namespace

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
}

}  // namespace coll
