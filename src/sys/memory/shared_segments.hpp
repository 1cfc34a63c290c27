// SPDX-License-Identifier: Apache-2.0
// Which memory of this process stays where it is, and how the others of this host map it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/memory/held_ranges.hpp"

namespace coll {

/// Where memory of a process lies for the others: at an offset of one of its descriptors. All zero
/// is nowhere.
struct SharedPlace {
  /// The segment that a process passes on when it connects; others are opened when needed.
  static constexpr std::uint64_t kArena = 1;
  /// Segments are mapped piece by piece: a range that lies in two pieces cannot be read in place.
  static constexpr std::size_t kWindow = std::size_t{1} << 30;

  std::uint64_t segment = 0;  ///< a number that its process never gives again
  std::int64_t descriptor = 0;
  std::uint64_t inode = 0;  ///< of the descriptor's file: who opens it finds this one
  std::uint64_t offset = 0;

  friend bool operator==(const SharedPlace&, const SharedPlace&) = default;
  [[nodiscard]] bool in_one_window(std::size_t bytes) const {
    return offset / kWindow == (offset + bytes - 1) / kWindow;
  }
};

/// The segments of this process: ranges of its addresses, backed by descriptors that are sealed
/// against shrinking, or private, for devices alone. The arena is one, what users register are the
/// others. A fork starts without any.
class SharedSegments {
 public:
  /// Where others read [data, data + bytes), bytes > 0, in place, if they can. Any thread, no lock,
  /// no allocation; right for all memory that is not being added or removed at this moment.
  static std::optional<SharedPlace> find(const std::byte* data, std::size_t bytes);

  /// [data, data + bytes) are the bytes of `descriptor`, which is kept, from `offset` on. Returns
  /// the place of the first. Refused: a range that overlaps another one.
  static Result<SharedPlace> add(const std::byte* data, std::size_t bytes, Fd descriptor,
                                 std::uint64_t offset);
  /// Is the byte in any segment? Like `find`.
  static bool has(const std::byte* data);
  /// Private memory, which `find` finds nowhere. Refused like the others.
  static Status add_private(const std::byte* data, std::size_t bytes);
  /// Like `add`, for the process's arena.
  static Result<SharedPlace> add_arena(const std::byte* data, std::size_t bytes, Fd descriptor);
  /// Who looks for the process's arena, or makes it, holds this one. No fork happens meanwhile.
  static std::mutex& arena_mutex();
  /// Forgets what was added to begin at `data` and closes its descriptor. Not the arena.
  static Status remove(const std::byte* data);
  /// The segment that has this byte, the arena as a whole. Takes a lock.
  static std::optional<HeldRange> range_of(const std::byte* data);
  /// How many were ever removed: who has mapped some looks when this has changed which are left.
  static std::uint64_t removals();
};

}  // namespace coll
