// SPDX-License-Identifier: Apache-2.0
// Blocks of the arena, and registered segments, as one kind of thing.
#include "sys/memory/held_ranges.hpp"

#include "sys/memory/shared_arena.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

std::optional<HeldRange> held_range(const std::byte* data, std::size_t bytes) {
  const std::optional<SharedPlace> place = SharedSegments::find(data, bytes);
  if (!place) return {};
  std::optional<HeldRange> range;
  if (place->segment == SharedPlace::kArena) {
    const Result<SharedArena*> arena = SharedArena::of_this_process();
    if (arena.ok()) range = (*arena)->block_of(data);
  } else {
    range = SharedSegments::range_of(data);
  }
  return range && range->has(data, bytes) ? range : std::nullopt;
}

std::uint64_t held_ranges_ended() {
  return SharedSegments::removals() + SharedArena::frees();
}

}  // namespace coll
