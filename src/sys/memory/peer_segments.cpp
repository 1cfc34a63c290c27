// SPDX-License-Identifier: Apache-2.0
// Another process's shared memory, read in place.
#include "sys/memory/peer_segments.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_arena.hpp"
#include "sys/memory/peer_file.hpp"

namespace coll {
namespace {

constexpr std::size_t kWindow = SharedPlace::kWindow;

Status not_shared(const SharedPlace& place, std::size_t bytes) {
  return failed(Code::invalid_argument, std::to_string(bytes) + " bytes at " +
                                            std::to_string(place.offset) +
                                            " are not in the memory that the peer shares");
}

bool is_same_file(const Fd& one, const Fd& other) {
  struct stat a {
  }, b{};
  return ::fstat(one.get(), &a) == 0 && ::fstat(other.get(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

PeerSegments::PeerSegments(Fd arena, std::int64_t pid, const SharedPlace& place)
    : arena_(keep_peer_arena(std::move(arena))) {
  if (pid <= 0) return;
  const Result<Fd> opened = open_peer_file(pid, place);
  if (opened.ok() && is_same_file(*opened, *arena_)) pid_ = pid;
}

PeerSegments::~PeerSegments() {
  for (const auto& [key, mapped] : mappings_) ::munmap(mapped.mapping.data, mapped.mapping.bytes);
}

Result<const std::byte*> PeerSegments::map(const SharedPlace& place, std::size_t bytes) {
  COLL_ASSIGN(const Mapping mapping, mapping_of(place, bytes, Access::read));
  recent(place) = mapping;
  return mapping.data + (place.offset - mapping.begin);
}

Result<std::byte*> PeerSegments::map_to_write(std::uint64_t offset, std::size_t bytes) {
  SharedPlace place;
  place.segment = SharedPlace::kArena;
  place.offset = offset;
  COLL_ASSIGN(latest_to_write_, mapping_of(place, bytes, Access::write));
  return latest_to_write_.data + (offset - latest_to_write_.begin);
}

/// Maps what is not mapped yet.
Result<PeerSegments::Mapping> PeerSegments::mapping_of(const SharedPlace& place, std::size_t bytes,
                                                       Access access) {
  const std::tuple key(place.segment, place.offset / kWindow, access);
  auto known = mappings_.find(key);
  if (known == mappings_.end()) {
    COLL_ASSIGN(const Mapping made, make_mapping(place, bytes, access));
    known = mappings_.emplace(key, Mapped{made, place}).first;
  }
  if (!known->second.mapping.has(place.offset, bytes)) return not_shared(place, bytes);
  return known->second.mapping;
}

/// Maps the piece that `place` begins in, if the `bytes` lie in it.
Result<PeerSegments::Mapping> PeerSegments::make_mapping(const SharedPlace& place,
                                                         std::size_t bytes, Access access) const {
  const bool passed = place.segment == SharedPlace::kArena;
  if (!passed && !opens())
    return failed(Code::unsupported, "the descriptors of the peer cannot be opened here");
  Fd opened;
  if (!passed) {
    COLL_ASSIGN(opened, open_peer_file(pid_, place));
  }
  const Fd& file = passed ? *arena_ : opened;
  COLL_ASSIGN(const std::size_t size, MemorySegment::size_of(file));
  Mapping mapping{.segment = place.segment, .begin = place.offset / kWindow * kWindow};
  if (mapping.begin < size) mapping.bytes = std::min(kWindow, size - mapping.begin);
  if (!mapping.has(place.offset, bytes)) return not_shared(place, bytes);
  const int protection = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, mapping.bytes, protection, MAP_SHARED | MAP_NORESERVE, file.get(),
                      static_cast<off_t>(mapping.begin));
  if (data == MAP_FAILED) return system_failure("mmap of memory that a peer shares", errno);
  (void)::madvise(data, mapping.bytes, MADV_DONTDUMP);  // else its dump would be ours too
  mapping.data = static_cast<std::byte*>(data);
  return mapping;
}

void PeerSegments::release_gone(std::uint64_t removals) {
  removals_ = removals;
  std::erase_if(mappings_, [&](const auto& entry) {
    const auto& [mapping, place] = entry.second;
    if (place.segment == SharedPlace::kArena || find_peer_file(pid_, place).ok()) return false;
    ::munmap(mapping.data, mapping.bytes);
    return true;
  });
  recent_ = {};
}

}  // namespace coll
