// SPDX-License-Identifier: Apache-2.0
// Other processes' arenas, mapped once for all who read them.
#include "sys/memory/peer_arena.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/made_once.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_file.hpp"

namespace coll {
namespace {

constexpr std::size_t kWindow = SharedPlace::kWindow;

using FileId = std::pair<dev_t, ino_t>;

/// Of no file: 0, 0.
FileId id_of(const Fd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? FileId(status.st_dev, status.st_ino) : FileId();
}

ForkSafeMutex g_arenas_mutex;
std::map<FileId, std::weak_ptr<PeerArena>>& peer_arenas() {
  return made_once([] { return std::map<FileId, std::weak_ptr<PeerArena>>(); });
}

}  // namespace

Result<PeerMapping> PeerMapping::map(const Fd& file, std::uint64_t offset, PeerAccess access) {
  COLL_ASSIGN(const std::size_t size, MemorySegment::size_of(file));
  PeerWindow window{.begin = offset / kWindow * kWindow};
  if (window.begin >= size) return PeerMapping({});
  window.bytes = std::min(kWindow, size - window.begin);
  const int protection = access == PeerAccess::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, window.bytes, protection, MAP_SHARED | MAP_NORESERVE, file.get(),
                      static_cast<off_t>(window.begin));
  if (data == MAP_FAILED) return system_failure("mmap of memory that a peer shares", errno);
  (void)::madvise(data, window.bytes, MADV_DONTDUMP);  // else its dump would be ours too
  window.data = static_cast<std::byte*>(data);
  return PeerMapping(window);
}

PeerMapping::~PeerMapping() {
  if (window_.data != nullptr) ::munmap(window_.data, window_.bytes);
}

std::shared_ptr<PeerArena> PeerArena::of(Fd file) {
  const FileId id = id_of(file);
  auto mine = std::make_shared<PeerArena>(std::move(file));
  if (id == FileId()) return mine;
  const std::lock_guard lock(g_arenas_mutex);
  auto& all = peer_arenas();
  std::erase_if(all, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<PeerArena>& known = all[id];
  if (auto there = known.lock()) return there;  // `mine` goes unlocked
  known = mine;
  return mine;
}

bool PeerArena::is_of(std::int64_t pid, const SharedPlace& place) {
  if (pid <= 0) return false;
  const std::lock_guard lock(g_arenas_mutex);
  if (pid_ == pid) return true;
  const Result<Fd> opened = open_peer_file(pid, place);
  const bool same = opened.ok() && id_of(*opened) != FileId() && id_of(*opened) == id_of(file_);
  if (same) pid_ = pid;
  return same;
}

Result<PeerWindow> PeerArena::window(std::uint64_t offset, PeerAccess access) {
  const std::lock_guard lock(g_arenas_mutex);
  const std::pair key(offset / kWindow, access);
  if (const auto known = windows_.find(key); known != windows_.end()) return known->second.window();
  COLL_ASSIGN(PeerMapping made, PeerMapping::map(file_, offset, access));
  const PeerWindow window = made.window();
  if (window.data != nullptr) windows_.emplace(key, std::move(made));
  return window;
}

}  // namespace coll
