// SPDX-License-Identifier: Apache-2.0
// Memory for users that the processes of this host can map.
#include "sys/memory/shared_arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <iterator>
#include <string>

#include "sys/memory/memory_segment.hpp"

namespace coll {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallest = std::size_t{1} << 30;
constexpr std::size_t kLargest = std::size_t{16} << 40;

constinit std::atomic<std::uint64_t> g_arena_frees{0};

/// Twice the memory there is.
std::size_t wanted_size() {
  const auto pages = static_cast<std::size_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
  const auto page = static_cast<std::size_t>(std::max(::sysconf(_SC_PAGESIZE), 1L));
  return std::clamp(std::bit_ceil(2 * pages * page), kSmallest, kLargest);
}

/// Maps all of it where huge pages begin. Null: there is no place, see errno.
std::byte* map_aligned(const Fd& descriptor, std::size_t size) {
  void* room = ::mmap(nullptr, size + kHugePage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(room);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  void* place = ::mmap(begin + before, size, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor.get(), 0);
  if (place == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, size + kHugePage);
    errno = error;
    return nullptr;
  }
  if (before != 0) ::munmap(begin, before);
  ::munmap(begin + before + size, kHugePage - before);
  return begin + before;
}

}  // namespace

SharedArena::SharedArena(const SharedPlace& place, std::byte* data, std::size_t size)
    : place_(place), owner_(::getpid()), data_(data), size_(size), free_{{0, {.bytes = size}}} {}

Result<SharedArena*> SharedArena::of_this_process() {
  static SharedArena* arena = nullptr;  // for good: peers may read it to the very end
  const std::lock_guard lock(SharedSegments::arena_mutex());
  if (arena != nullptr && arena->owner_ == ::getpid()) return arena;
  COLL_ASSIGN(SharedArena* const made, make());
  made->parents_ = arena;
  return arena = made;
}

Result<SharedArena*> SharedArena::make() {
  Status failure;
  // Address space may be short, or files: then half of it, and so on.
  for (std::size_t size = wanted_size(); size >= kSmallest; size /= 2) {
    Result<Fd> descriptor = MemorySegment::create("coll-arena", size);
    if (!descriptor.ok()) {
      failure = descriptor.status();
      continue;
    }
    std::byte* place = map_aligned(*descriptor, size);
    if (place == nullptr) {
      failure = system_failure("mmap of an arena of " + std::to_string(size) + " bytes", errno,
                               "raise the limit of address space (ulimit -v)");
      continue;
    }
    // A child would write into its parent's memory.
    (void)::madvise(place, size, MADV_DONTFORK);
    (void)::madvise(place, size, MADV_HUGEPAGE);
    // A core dump touches, and so makes, every page of what it writes.
    (void)::madvise(place, size, MADV_DONTDUMP);
    COLL_ASSIGN(const SharedPlace known,
                SharedSegments::add_arena(place, size, *std::move(descriptor)));
    return new SharedArena(known, place, size);
  }
  return failure;
}

Result<std::byte*> SharedArena::allocate(std::size_t bytes) {
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPageBytes;
  if (bytes > size_) {
    return failed(Code::out_of_resources,
                  std::to_string(bytes) + " bytes are more than this process can share");
  }
  bytes = round_up(std::max<std::size_t>(bytes, 1), unit);
  const std::lock_guard lock(mutex_);
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const std::size_t begin = place->first, end = begin + place->second.bytes;
    const std::size_t at = round_up(begin, unit);
    if (at + bytes > end) continue;
    // What has no memory for its nodes changes nothing.
    const auto used = used_.emplace(at, Block{bytes, (std::uint64_t{1} << 63) + ++last_number_});
    try {
      if (at + bytes < end) free_.emplace(at + bytes, Block{.bytes = end - at - bytes});
    } catch (...) {
      used_.erase(used.first);
      throw;
    }
    place->second.bytes = at - begin;
    if (at == begin) free_.erase(place);
    return data_ + at;
  }
  return failed(Code::out_of_resources,
                "no " + std::to_string(bytes) + " bytes in one piece are left to share",
                "free what is not needed, or raise the limit of address space (ulimit -v)");
}

std::optional<HeldRange> SharedArena::block_of(const std::byte* data) {
  const auto offset = static_cast<std::size_t>(data - data_);
  const std::lock_guard lock(mutex_);
  auto after = used_.upper_bound(offset);
  if (after == used_.begin()) return {};
  const auto& [begin, block] = *std::prev(after);
  if (offset >= begin + block.bytes) return {};
  return HeldRange{data_ + begin, block.bytes, block.number};
}

std::uint64_t SharedArena::frees() {
  return g_arena_frees.load(std::memory_order_acquire);
}

Status SharedArena::free(std::byte* block) {
  if (owner_ != ::getpid()) {
    return failed(Code::invalid_argument, "this memory is of the process that made this one");
  }
  const std::lock_guard lock(mutex_);
  const auto used =
      used_.find(reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(data_));
  if (used == used_.end()) {
    return failed(Code::invalid_argument,
                  "this memory is not from coll_mem_alloc, or freed already");
  }
  auto node = used_.extract(used);  // goes to the others: to free needs no memory
  const std::size_t begin = node.key();
  std::size_t& bytes = node.mapped().bytes;
  g_arena_frees.fetch_add(1, std::memory_order_release);
  // The pages go, though others have them mapped; who gets the block next finds zeros.
  if (::fallocate(static_cast<int>(place_.descriptor), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(begin), static_cast<off_t>(bytes)) != 0) {
    std::fill_n(data_ + begin, bytes, std::byte{0});
  }
  auto after = free_.lower_bound(begin);
  if (after != free_.end() && after->first == begin + bytes) {
    bytes += after->second.bytes;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == begin) {
      before->second.bytes += bytes;
      return {};
    }
  }
  free_.insert(std::move(node));
  return {};
}

SharedArena::OwnedBlock SharedArena::own(std::size_t bytes, ArenaUse use) {
  const Result<SharedArena*> arena = of_this_process();
  if (!arena.ok()) return {};
  Own& own = (*arena)->own_[static_cast<std::size_t>(use)];
  if (own.bytes.load() + bytes > (*arena)->size_ / (2 * kArenaUses)) return {};
  const Result<std::byte*> block = (*arena)->allocate(bytes);
  if (!block.ok()) return {};
  own.bytes.fetch_add(bytes);
  return {*block, [&own, bytes](std::byte* memory) {  // small: allocates nothing
            static_cast<void>(own.arena->free(memory));
            own.bytes.fetch_sub(bytes);
          }};
}

}  // namespace coll
