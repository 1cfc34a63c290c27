// SPDX-License-Identifier: Apache-2.0
// Where the data of a lane's steps lies in the window that it is in.
#pragma once
#include <utility>

#include "executor/run.hpp"

namespace coll {

/// Of a call of unequal blocks (unequal_lanes.cpp).
void enter_unequal_window(const Run& run, Run::Cursor& lane);

namespace mover {

using Cursor = Run::Cursor;

constexpr int kInput = static_cast<int>(Space::input);
constexpr int kOutput = static_cast<int>(Space::output);

/// Adds as numbers, not as pointers: an operand that this rank does not have is at null plus an
/// offset, which nobody reads.
inline std::byte* at(const Cursor& lane, Space space, std::uint64_t offset) {
  return reinterpret_cast<std::byte*>(lane.base[static_cast<int>(space)] + offset);
}

/// Enters the window of `lane.pass`.
[[gnu::always_inline]] inline void enter_window(const Run& run, Cursor& lane) {
  if (run.extents.blocks != nullptr) [[unlikely]]
    return enter_unequal_window(run, lane);
  const Windows& windows = run.extents.windows;
  lane.next = lane.lane->begin;
  lane.extent = lane.pass + 1 == windows.passes ? lane.last_extents : lane.extents;
  const std::uint64_t offset = lane.pass * windows.elements * run.call.element_bytes;
  lane.base[kInput] = reinterpret_cast<std::uintptr_t>(run.call.input) + offset;
  lane.base[kOutput] = reinterpret_cast<std::uintptr_t>(run.call.output) + offset;
}

/// Tells the lane's peers where it will want the messages of this pass and the next ones. Blocks
/// are equal. All messages of earlier passes were received.
void expect_messages(const Run& run, Cursor& lane);

/// Calls use(from, with, into, elements) for each contiguous piece of the step's chunks; the places
/// of operands that the step lacks mean nothing. Out of line: inlined, it changes what the compiler
/// makes of the steps of one piece.
template <bool kUnequal, class Use>
[[gnu::noinline]] void for_each_piece(const Run& run, const Cursor& lane, const BoundStep& step,
                                      Use use) {
  const std::size_t size = run.call.element_bytes;
  if constexpr (kUnequal) {
    const auto bytes = [&](std::uint64_t elements) { return elements * size; };
    for_each_unequal_stretch(run.extents, run.program->chunks.parts, step, lane.pass,
                             [&](std::uint64_t from, std::uint64_t with, std::uint64_t into,
                                 std::uint64_t n, BlockParts /*of*/) {
                               if (n == 0) return;
                               use(at(lane, step.from_space, bytes(from)),
                                   at(lane, step.with_space, bytes(with)),
                                   at(lane, step.into_space, bytes(into)), n);
                             });
    return;
  }
  const auto place = [&](Space space, BoundOperand operand, std::uint64_t block,
                         std::uint64_t element) {
    const std::uint64_t elements = (operand.block + block) * run.extents.period(space) + element;
    return at(lane, space, elements * size);
  };
  for_each_stretch(run.extents.windows, run.program->chunks.parts, step,
                   run.extents.elements_of(lane.pass),
                   [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
                     if (n == 0) return;
                     use(place(step.from_space, step.from, block, element),
                         place(step.with_space, step.with, block, element),
                         place(step.into_space, step.into, block, element), n);
                   });
}

/// Calls use(to, from, bytes) for each contiguous piece of what a step copies: its chunks from
/// `message`, or else from their local place, to `slot`, or else to theirs.
template <bool kUnequal, class Use>
[[gnu::always_inline]] inline void for_each_copy(const Run& run, const Cursor& lane,
                                                 const BoundStep& step, const StepExtent& extent,
                                                 const std::byte* message, std::byte* slot,
                                                 Use use) {
  if (extent.one_piece) [[likely]] {
    use(slot != nullptr ? slot : at(lane, step.into_space, extent.into),
        message != nullptr ? message : at(lane, step.from_space, extent.from), extent.bytes);
    return;
  }
  for_each_piece<kUnequal>(
      run, lane, step,
      [&](const std::byte* from, const std::byte*, std::byte* into, std::uint64_t n) {
        const std::size_t length = n * run.call.element_bytes;
        if (message != nullptr) from = std::exchange(message, message + length);
        if (slot != nullptr) into = std::exchange(slot, slot + length);
        use(into, from, length);
      });
}

/// Calls use(into, slot, from, with, elements) for each contiguous piece of what a step combines:
/// its chunks from `message`, or else from their local place, with local ones. `slot` is null where
/// the step has none.
template <bool kUnequal, class Use>
[[gnu::always_inline]] inline void for_each_combination(const Run& run, const Cursor& lane,
                                                        const BoundStep& step,
                                                        const StepExtent& extent,
                                                        const std::byte* message, std::byte* slot,
                                                        Use use) {
  if (extent.one_piece) {
    if (extent.bytes == 0) return;
    use(at(lane, step.into_space, extent.into), slot,
        message != nullptr ? message : at(lane, step.from_space, extent.from),
        at(lane, step.with_space, extent.with), extent.elements);
    return;
  }
  for_each_piece<kUnequal>(
      run, lane, step,
      [&](const std::byte* from, const std::byte* with, std::byte* into, std::uint64_t n) {
        const std::size_t length = n * run.call.element_bytes;
        if (message != nullptr) from = std::exchange(message, message + length);
        use(into, slot, from, with, n);
        if (slot != nullptr) slot += length;
      });
}

}  // namespace mover
}  // namespace coll
