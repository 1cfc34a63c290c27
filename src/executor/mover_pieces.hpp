// SPDX-License-Identifier: Apache-2.0
// What a step does with the bytes at its two hands: it copies or combines them.
#pragma once
#include "executor/mover.hpp"

namespace coll::mover {

/// Calls use(from, with, into, elements) for each contiguous piece of the step's chunks; the places
/// of operands that the step lacks mean nothing.
template <bool kUnequal>
template <class Use>
void Mover<kUnequal>::for_each_piece(const Cursor& lane, const BoundStep& step, Use use) const {
  if constexpr (kUnequal) {
    const auto bytes = [&](std::uint64_t elements) { return elements * call_.element_bytes; };
    for_each_unequal_stretch(run_.extents, program_.chunks.parts, step, lane.pass,
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
    const std::uint64_t elements = (operand.block + block) * run_.extents.period(space) + element;
    return at(lane, space, elements * call_.element_bytes);
  };
  for_each_stretch(run_.extents.windows, program_.chunks.parts, step,
                   run_.extents.elements_of(lane.pass),
                   [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
                     if (n == 0) return;
                     use(place(step.from_space, step.from, block, element),
                         place(step.with_space, step.with, block, element),
                         place(step.into_space, step.into, block, element), n);
                   });
}

/// Copies the step's chunks from `message`, or else from their local place, to `slot`, or else to
/// theirs.
template <bool kUnequal>
inline void Mover<kUnequal>::copy(const Cursor& lane, const BoundStep& step,
                                  const StepExtent& extent, const std::byte* message,
                                  std::byte* slot) {
  const bool streaming = slot == nullptr && store_of(step) != 0;
  const auto run = [&](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to == from || bytes == 0) return;
    if (streaming) {
      reduce::copy_kernels().copy[1](to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  };
  if (extent.one_piece) [[likely]] {
    run(slot != nullptr ? slot : at(lane, step.into_space, extent.into),
        message != nullptr ? message : at(lane, step.from_space, extent.from), extent.bytes);
    return;
  }
  for_each_piece(lane, step,
                 [&](const std::byte* from, const std::byte*, std::byte* into, std::uint64_t n) {
                   const std::size_t length = n * call_.element_bytes;
                   if (message != nullptr) from = std::exchange(message, message + length);
                   if (slot != nullptr) into = std::exchange(slot, slot + length);
                   run(into, from, length);
                 });
}

/// value = from op with, to the local place, to `slot`, or to both.
template <bool kUnequal>
void Mover<kUnequal>::reduce(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
                             const std::byte* message, std::byte* slot) {
  if (extent.one_piece) {
    if (extent.bytes == 0) return;
    reduce_run(step, at(lane, step.into_space, extent.into), slot,
               message != nullptr ? message : at(lane, step.from_space, extent.from),
               at(lane, step.with_space, extent.with), extent.elements);
    return;
  }
  for_each_piece(
      lane, step,
      [&](const std::byte* from, const std::byte* with, std::byte* into, std::uint64_t n) {
        const std::size_t length = n * call_.element_bytes;
        if (message != nullptr) from = std::exchange(message, message + length);
        reduce_run(step, into, slot, from, with, n);
        if (slot != nullptr) slot += length;
      });
}

template <bool kUnequal>
void Mover<kUnequal>::reduce_run(const BoundStep& step, std::byte* into, std::byte* slot,
                                 const std::byte* from, const std::byte* with,
                                 std::uint64_t elements) {
  if (call_.kernels == nullptr) [[unlikely]] {
    if (step.swapped) std::swap(from, with);
    if (step.into_space == Space::none) into = std::exchange(slot, nullptr);
    return reduce::combine_own(call_.own, call_.element_bytes, from, with, into, slot, elements);
  }
  const reduce::Kernels& kernels = *call_.kernels;
  const auto ranks = static_cast<std::size_t>(program_.ranks);
  const unsigned how = store_of(step);
  const auto& combine = step.finish ? kernels.finish : kernels.combine;
  const auto& combine_both = step.finish ? kernels.finish_both : kernels.combine_both;
  if (step.into_space == Space::none) {
    combine[0](slot, from, with, elements, ranks);
  } else if (slot == nullptr) {
    combine[how](into, from, with, elements, ranks);
  } else if (how != 0) {
    combine_both[how](into, slot, from, with, elements, ranks);
  } else {
    // Stores to lines of another core are slow one by one: a plain copy moves them in bulk.
    combine[0](into, from, with, elements, ranks);
    std::memcpy(slot, into, elements * call_.element_bytes);
  }
}

}  // namespace coll::mover
