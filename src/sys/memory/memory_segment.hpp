// SPDX-License-Identifier: Apache-2.0
// Memory behind a sealed memfd that other processes can map.
#pragma once
#include <cstddef>
#include <utility>

#include "base/status.hpp"
#include "sys/fd.hpp"

namespace coll {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Has the system give all pages of these bytes, which are mapped, now. That takes a fraction of
/// the time that it takes to give them one by one, when each is first touched. Changes no content.
/// False: the system cannot (Linux before 5.14), or has no memory left.
bool populate(std::byte* data, std::size_t bytes);

/// A mapping of shared memory with one owner. The memory has no name and needs no file system: it
/// is made as a descriptor (memfd), passed over a Unix socket, and gone with the last mapping.
/// Zeroed, aligned to a page; a page costs memory only once it is touched.
class MemorySegment {
 public:
  MemorySegment() = default;
  MemorySegment(MemorySegment&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MemorySegment& operator=(MemorySegment&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  MemorySegment(const MemorySegment&) = delete;
  MemorySegment& operator=(const MemorySegment&) = delete;
  ~MemorySegment();

  /// A new descriptor of `bytes` zeroed bytes that can never change its size; `name` is what
  /// /proc shows of it.
  static Result<Fd> create(const char* name, std::size_t bytes);
  /// The size of a descriptor made by `create`, here or elsewhere, or of one like it. One that
  /// could shrink, or want for pages of its own, is refused: its reader would die of SIGBUS.
  static Result<std::size_t> size_of(const Fd& descriptor);
  /// Maps a descriptor made by `create`, here or elsewhere. One that could shrink, or has another
  /// size, is refused.
  static Result<MemorySegment> map(const Fd& descriptor, std::size_t bytes);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  MemorySegment(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace coll
