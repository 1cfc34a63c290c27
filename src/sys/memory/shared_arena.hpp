// SPDX-License-Identifier: Apache-2.0
// Memory for users that the processes of this host can map.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.hpp"
#include "sys/memory/held_ranges.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

/// What the library itself keeps in an arena. Each use has about a quarter of the arena, so that
/// neither takes the other's room, and half is left to users.
enum class ArenaUse : std::uint8_t {
  messages,  ///< of connections, which can do without
  calls,     ///< their scratch memory, and what GPUs need
};
inline constexpr std::size_t kArenaUses = 2;

/// One range of addresses per process, all of it one memfd: whoever has the descriptor can map any
/// part. The range is far larger than what is used; a page costs memory once it is touched, and is
/// given back when its block is freed, though others have it mapped.
class SharedArena {
 public:
  /// This process's arena, made at the first call. A fork starts without; core dumps leave it out.
  /// Fails where the system has no memfd or no address space left.
  static Result<SharedArena*> of_this_process();

  /// Zeroed memory, aligned to a page at least, large blocks to 2 MiB for huge pages.
  Result<std::byte*> allocate(std::size_t bytes);
  /// Gives back what `allocate` gave in this process. In one made by a fork since then it is
  /// refused: neither the memory nor the descriptor is there any more.
  Status free(std::byte* block);
  /// The block of `allocate` that has this byte.
  std::optional<HeldRange> block_of(const std::byte* data);
  /// How many blocks were ever freed.
  static std::uint64_t frees();
  /// A block of this process's arena that frees itself, for the library's own use; null if there is
  /// no arena, or no room for this use.
  using OwnedBlock = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;
  static OwnedBlock own(std::size_t bytes, ArenaUse use);

  /// Where it begins for others; the descriptor is to be passed on.
  [[nodiscard]] const SharedPlace& place() const { return place_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  SharedArena(const SharedPlace& place, std::byte* data, std::size_t size);
  static Result<SharedArena*> make();

  SharedPlace place_;
  pid_t owner_;
  std::byte* data_;
  std::size_t size_;
  /// A forked child's: its parent's, which it cannot use. Kept for checkers of leaks.
  SharedArena* parents_ = nullptr;
  struct Own {
    SharedArena* arena = nullptr;
    std::atomic<std::size_t> bytes{0};
  };
  Own own_[kArenaUses]{{.arena = this}, {.arena = this}};  ///< by use
  std::mutex mutex_;
  struct Block {
    std::size_t bytes = 0;
    std::uint64_t number = 0;  ///< of one in use
  };
  /// By offset; neighbours that are free are joined.
  std::map<std::size_t, Block> free_, used_;
  std::uint64_t last_number_ = 0;
};

}  // namespace coll
