// SPDX-License-Identifier: Apache-2.0
// Blocks of the arena, and registered segments, as one kind of thing.
#include "sys/memory/held_ranges.hpp"

#include "sys/memory/shared_arena.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

std::optional<HeldRange> held_range(const std::byte* data, std::size_t bytes) {
  if (!SharedSegments::has(data)) return {};
  std::optional<HeldRange> range = SharedSegments::range_of(data);
  if (range && range->number == SharedPlace::kArena) {
    const Result<SharedArena*> arena = SharedArena::of_this_process();
    range = arena.ok() ? (*arena)->block_of(data) : std::nullopt;
  }
  return range && range->has(data, bytes) ? range : std::nullopt;
}

std::uint64_t held_ranges_ended() {
  return SharedSegments::removals() + SharedArena::frees();
}

}  // namespace coll
