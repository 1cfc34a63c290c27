// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: memory for users that the processes
// of this host can map.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "base/status.hpp"
#include "sys/fd.hpp"

namespace coll {

/// One range of addresses per process, all of it one memfd: whoever has the descriptor can map any
/// part, and an address is an offset into it by one subtraction. The range is far larger than what
/// is used; a page costs memory once it is touched, and is given back when its block is freed,
/// though others have it mapped.
class SharedArena {
 public:
  /// Of this process, made at the first call; a fork starts without, and core dumps leave it out.
  /// Its size is a multiple of PeerArena::kWindow. Fails where the system has no memfd or no
  /// address space left.
  static Result<SharedArena*> of_this_process();

  /// Zeroed memory, aligned to a page at least, large blocks to 2 MiB for huge pages.
  Result<std::byte*> allocate(std::size_t bytes);
  /// Gives back what `allocate` gave.
  Status free(std::byte* block);

  /// The descriptor and its length, to be passed on.
  [[nodiscard]] const Fd& descriptor() const { return descriptor_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Where [data, data + bytes) lies in the arena of this process, if it does. Any thread, no lock.
  static std::optional<std::uint64_t> offset_of(const std::byte* data, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t begin = begin_.load(std::memory_order_relaxed);
    const std::uintptr_t end = end_.load(std::memory_order_relaxed);
    if (address < begin || address >= end || bytes > end - address) return std::nullopt;
    return address - begin;
  }

 private:
  SharedArena(Fd descriptor, std::byte* data, std::size_t size);
  static Result<SharedArena*> make();

  Fd descriptor_;
  std::byte* data_;
  std::size_t size_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< offset to bytes; neighbours are joined
  std::map<std::size_t, std::size_t> used_;

  static std::atomic<std::uintptr_t> begin_, end_;
};

/// Another process's arena, mapped for reading window by window as it is asked for. Used by one
/// thread at a time.
class PeerArena {
 public:
  /// A range within one window can be mapped.
  static constexpr std::size_t kWindow = std::size_t{1} << 30;
  static bool in_one_window(std::uint64_t offset, std::size_t bytes) {
    return offset / kWindow == (offset + bytes - 1) / kWindow;
  }

  PeerArena() = default;
  explicit PeerArena(Fd descriptor) : descriptor_(std::move(descriptor)) {}
  PeerArena(PeerArena&&) = default;
  ~PeerArena();

  /// [offset, offset + bytes) of the arena, bytes > 0, in one window. What the other process says
  /// is checked here.
  Result<const std::byte*> at(std::uint64_t offset, std::size_t bytes) {
    const std::uint64_t window = offset / kWindow;
    if (window == window_ && in_one_window(offset, bytes)) [[likely]]
      return data_ + offset % kWindow;
    return map(offset, bytes);
  }

 private:
  Result<const std::byte*> map(std::uint64_t offset, std::size_t bytes);

  Fd descriptor_;
  std::uint64_t window_ = ~std::uint64_t{0};  ///< the last one asked for
  const std::byte* data_ = nullptr;
  std::map<std::uint64_t, const std::byte*> windows_;
};

}  // namespace coll
