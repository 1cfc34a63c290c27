// SPDX-License-Identifier: Apache-2.0
// Another process's shared memory, read in place.
#include "sys/memory/peer_segments.hpp"

#include <string>

#include "sys/memory/peer_file.hpp"

namespace coll {
namespace {

Status not_shared(const SharedPlace& place, std::size_t bytes) {
  return failed(Code::invalid_argument, std::to_string(bytes) + " bytes at " +
                                            std::to_string(place.offset) +
                                            " are not in the memory that the peer shares");
}

}  // namespace

PeerSegments::PeerSegments(Fd arena, std::int64_t pid, const SharedPlace& place)
    : arena_(PeerArena::of(std::move(arena))) {
  if (arena_->is_of(pid, place)) pid_ = pid;
}

Result<const std::byte*> PeerSegments::map(const SharedPlace& place, std::size_t bytes) {
  COLL_ASSIGN(const PeerWindow window, place.segment == SharedPlace::kArena
                                           ? arena_window(place.offset, PeerAccess::read)
                                           : window_of(place));
  if (!window.has(place.offset, bytes)) return not_shared(place, bytes);
  recent(place) = {place.segment, window};
  return window.data + (place.offset - window.begin);
}

Result<std::byte*> PeerSegments::map_to_write(std::uint64_t offset, std::size_t bytes) {
  COLL_ASSIGN(const PeerWindow window, arena_window(offset, PeerAccess::write));
  if (!window.has(offset, bytes)) return not_shared({.offset = offset}, bytes);
  latest_to_write_ = window;
  return window.data + (offset - window.begin);
}

/// Asks the arena, which locks, once for each piece.
Result<PeerWindow> PeerSegments::arena_window(std::uint64_t offset, PeerAccess access) {
  const std::pair key(offset / SharedPlace::kWindow, access);
  if (const auto known = arena_windows_.find(key); known != arena_windows_.end())
    return known->second;
  COLL_ASSIGN(const PeerWindow window, arena_->window(offset, access));
  if (window.data != nullptr) arena_windows_.emplace(key, window);
  return window;
}

/// The piece of a segment other than the arena. Maps what is not mapped yet.
Result<PeerWindow> PeerSegments::window_of(const SharedPlace& place) {
  const std::pair key(place.segment, place.offset / SharedPlace::kWindow);
  if (const auto known = mappings_.find(key); known != mappings_.end())
    return known->second.mapping.window();
  if (!opens())
    return failed(Code::unsupported, "the descriptors of the peer cannot be opened here");
  COLL_ASSIGN(const Fd file, open_peer_file(pid_, place));
  COLL_ASSIGN(PeerMapping made, PeerMapping::map(file, place.offset, PeerAccess::read));
  const PeerWindow window = made.window();
  if (window.data != nullptr) mappings_.emplace(key, Mapped{std::move(made), place});
  return window;
}

void PeerSegments::release_gone(std::uint64_t removals) {
  removals_ = removals;
  std::erase_if(mappings_,
                [&](const auto& entry) { return !find_peer_file(pid_, entry.second.place).ok(); });
  recent_ = {};
}

}  // namespace coll
