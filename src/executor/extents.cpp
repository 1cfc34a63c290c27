// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: where each step's data lies, worked out once per size of
// call.
#include "executor/program.hpp"

namespace coll {
namespace {

StepExtent extent_of(const Program& program, const BoundStep& step, std::uint64_t elements) {
  const std::uint64_t first = std::min(step.length.part * program.windows.chunk, elements);
  const auto offset = [&](Space space, BoundOperand operand) {
    return (operand.block * program.period(space) + first) * program.element_bytes;
  };
  StepExtent extent;
  extent.from = offset(step.from_space, step.from);
  extent.with = offset(step.with_space, step.with);
  extent.into = offset(step.into_space, step.into);
  std::uint64_t sum = 0;
  for_each_run(program, step, elements,
               [&](std::uint64_t, std::uint64_t, std::uint64_t n) { sum += n; });
  extent.elements = static_cast<std::uint32_t>(sum);
  extent.bytes = static_cast<std::uint32_t>(sum * program.element_bytes);
  bool one_piece = true;
  for (const Space space : {step.from_space, step.with_space, step.into_space}) {
    if (space == Space::none) continue;
    one_piece = one_piece && (step.length.part + step.count <= program.chunks.parts ||
                              elements == program.period(space));
  }
  extent.one_piece = one_piece;
  return extent;
}

}  // namespace

void Program::cut_anew(std::uint64_t count, std::size_t bytes_of_element) {
  windows = cut_windows(count, bytes_of_element, chunks.parts, shape.message_chunks,
                        shape.slice_bytes, shape.copies);
  element_bytes = bytes_of_element;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    extents[step] = extent_of(*this, steps[step], elements_of(0));
    extents[steps.size() + step] = extent_of(*this, steps[step], elements_of(windows.passes - 1));
  }
}

}  // namespace coll
