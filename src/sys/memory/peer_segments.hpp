// SPDX-License-Identifier: Apache-2.0
// Another process's shared memory, read in place.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/memory/peer_arena.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

/// The segments of another process, mapped for reading, piece by piece, as they are asked for.
/// What the other process says of them is checked here, so that a wrong word is a failure and never
/// a fault. Used by one thread at a time.
class PeerSegments {
 public:
  /// `arena` is its arena's descriptor, as it was passed; `place` is where the process, whose
  /// number is `pid`, says to have it. If it is found there, others can be opened too.
  explicit PeerSegments(Fd arena, std::int64_t pid = 0, const SharedPlace& place = {});
  PeerSegments(PeerSegments&&) = default;

  /// Can the segments that were not passed be opened? (The process must be in this process's
  /// namespace of processes, and the kernel must let us see its descriptors.)
  [[nodiscard]] bool opens() const { return pid_ != 0; }

  /// The `bytes`, > 0, that lie at `place`.
  Result<const std::byte*> at(const SharedPlace& place, std::size_t bytes) {
    const auto& [segment, window] = recent(place);
    if (segment == place.segment && window.has(place.offset, bytes)) [[likely]]
      return window.data + (place.offset - window.begin);
    return map(place, bytes);
  }

  /// The `bytes`, > 0, from `offset` on of the arena, mapped for writing. To be written to only
  /// when the other process asks for it.
  Result<std::byte*> to_write(std::uint64_t offset, std::size_t bytes) {
    if (latest_to_write_.has(offset, bytes)) [[likely]]
      return latest_to_write_.data + (offset - latest_to_write_.begin);
    return map_to_write(offset, bytes);
  }

  /// The process has removed `removals` segments so far: lets go of those.
  void release_removed(std::uint64_t removals) {
    if (removals > removals_) [[unlikely]]
      release_gone(removals);
  }

 private:
  struct Recent {
    std::uint64_t segment = 0;
    PeerWindow window;
  };
  struct Mapped {
    PeerMapping mapping;
    SharedPlace place;  ///< which it was opened for
  };

  /// Where the mapping of `place` would be, had it been asked for lately: a call has two buffers.
  Recent& recent(const SharedPlace& place) {
    return recent_[(place.segment + place.offset / SharedPlace::kWindow) % recent_.size()];
  }
  Result<const std::byte*> map(const SharedPlace& place, std::size_t bytes);
  Result<std::byte*> map_to_write(std::uint64_t offset, std::size_t bytes);
  Result<PeerWindow> arena_window(std::uint64_t offset, PeerAccess access);
  Result<PeerWindow> window_of(const SharedPlace& place);
  void release_gone(std::uint64_t removals);

  std::shared_ptr<PeerArena> arena_;
  std::int64_t pid_ = 0;
  std::uint64_t removals_ = 0;
  std::array<Recent, 8> recent_;
  PeerWindow latest_to_write_;
  /// Of the arena, which keeps them mapped, by number and access.
  std::map<std::pair<std::uint64_t, PeerAccess>, PeerWindow> arena_windows_;
  /// Of other segments than the arena, by segment and number.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Mapped> mappings_;
};

}  // namespace coll
