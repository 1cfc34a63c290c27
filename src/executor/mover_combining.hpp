// SPDX-License-Identifier: Apache-2.0
// How the CPU combines a step's operands: the part of mover.hpp that reduces.
#pragma once
#include <algorithm>
#include <utility>

#include "executor/mover.hpp"

namespace coll::mover {

/// value = from op with, to the local place, to `slot`, or to both.
template <bool kUnequal>
void Mover<kUnequal>::reduce(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
                             const std::byte* message, std::byte* slot) {
  const bool streams = slot != nullptr && streams_to(*lane.lane->connections[step.target], extent);
  const bool lands = slot != nullptr && lane.lane->connections[step.target]->lands();
  for_each_combination<kUnequal>(run_, lane, step, extent, message, slot,
                                 [&](std::byte* into, std::byte* both, const std::byte* from,
                                     const std::byte* with, std::uint64_t elements) {
                                   reduce_run(step, into, both, from, with, elements, streams,
                                              lands);
                                 });
}

template <bool kUnequal>
void Mover<kUnequal>::reduce_run(const BoundStep& step, std::byte* into, std::byte* slot,
                                 const std::byte* from, const std::byte* with,
                                 std::uint64_t elements, bool streams, bool lands) {
  if (call_.kernels == nullptr) [[unlikely]] {
    if (step.swapped) std::swap(from, with);
    if (step.into_space == Space::none) into = std::exchange(slot, nullptr);
    return reduce::combine_own(call_.own, call_.element_bytes, from, with, into, slot, elements);
  }
  const reduce::Kernels& kernels = *call_.kernels;
  const auto ranks = static_cast<std::size_t>(program_.ranks);
  const unsigned how = store_of(step, lands);
  const auto& combine = step.finish ? kernels.finish : kernels.combine;
  const auto& combine_both = step.finish ? kernels.finish_both : kernels.combine_both;
  if (step.into_space == Space::none) {
    combine[streams ? 1 : 0](slot, from, with, elements, ranks);
  } else if (slot == nullptr) {
    combine[how](into, from, with, elements, ranks);
  } else if (how != 0) {
    // The slot stays cached, since the peer reads it at once, unless its connection wants it past
    // the caches. The peer's own output goes past, as this one does.
    combine_both[lands || streams ? 1 : 0](into, slot, from, with, elements, ranks);
  } else {
    // Stores to lines of another core are slow one by one: a plain copy moves them in bulk.
    combine[0](into, from, with, elements, ranks);
    copy_bytes(slot, into, elements * call_.element_bytes, streams);
  }
}

/// Does the step combine its message in one piece? A step that may lend what it sends takes the
/// message whole: after a wait for a part it would have to ask again whether it lends.
template <bool kUnequal>
bool Mover<kUnequal>::comes_in_parts(const Cursor& lane, const BoundStep& step,
                                     const StepExtent& extent) {
  return step.with_space != Space::none && extent.one_piece &&
         (!step.sends || lane.lane->lendings[step.target] == nullptr);
}

/// May the message lie in the place of the step's result before it is combined? Not if the other
/// operand lies there.
template <bool kUnequal>
bool Mover<kUnequal>::may_hold_message(const BoundStep& step) const {
  if (step.into_space == Space::none || step.into_space == step.with_space) return false;
  const bool users = step.into_space != Space::scratch && step.with_space != Space::scratch;
  return !users || call_.apart;
}

/// Combines a message part by part, so that the caches need not hold it as a whole.
template <bool kUnequal>
bool Mover<kUnequal>::run_in_parts(Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  Connection& source = *lane.lane->connections[step.source];
  Connection* target = step.sends ? lane.lane->connections[step.target] : nullptr;
  // The credit first: while a part is awaited, the source takes no other message, and so its peer
  // might never give one back.
  std::byte* slot = target != nullptr ? acquire(lane, step, extent) : nullptr;
  if (target != nullptr && slot == nullptr) return false;
  const bool streams = target != nullptr && streams_to(*target, extent);
  const bool lands = target != nullptr && target->lands();
  const bool has_room = may_hold_message(step) && store_of(step, lands) == 0;
  const std::size_t size = call_.element_bytes;
  const std::uint64_t most = source.part_bytes() / size;
  while (lane.combined < extent.elements) {
    const std::uint64_t elements = std::min(most, extent.elements - lane.combined);
    const std::size_t begin = lane.combined * size;
    std::byte* const into = at(lane, step.into_space, extent.into + begin);
    const std::byte* part = source.peek_part(begin, elements * size, extent.bytes,
                                             digest_of(extent), has_room ? into : nullptr);
    if (part == nullptr) return false;
    reduce_run(step, into, slot == nullptr ? nullptr : slot + begin, part,
               at(lane, step.with_space, extent.with + begin), elements, streams, lands);
    if (!intact(lane, step)) return false;
    lane.combined += elements;
  }
  lane.combined = 0;
  if (target != nullptr) commit(lane, step, extent);
  source.release();
  return true;
}

}  // namespace coll::mover
