// SPDX-License-Identifier: Apache-2.0
// Memory that is counted by what it is for, under a limit: the device's memory on a machine without
// one. Formulas of memory are tested against these counters.
#pragma once
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "failure.hpp"

namespace training {

enum class Use { parameters, gradients, optimizer, activations, buckets, staging };
inline constexpr std::size_t kUses = 6;
const char* name_of(Use use);

template <class T>
class Block;

class Arena {
 public:
  explicit Arena(std::size_t limit = std::numeric_limits<std::size_t>::max()) : limit_(limit) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;

  /// Zeroed memory; what operations send the host's other ranks can read in place. Throws Failure
  /// if it would pass the limit, and says what all memory is used for.
  template <class T>
  Block<T> take(std::size_t count, Use use);

  [[nodiscard]] std::size_t bytes(Use use) const { return now_[index(use)]; }
  [[nodiscard]] std::size_t peak(Use use) const { return peak_[index(use)]; }
  [[nodiscard]] std::size_t bytes() const { return all_; }
  [[nodiscard]] std::size_t peak() const { return peak_of_all_; }
  /// Peaks begin anew at what is in use now.
  void forget_peaks();

 private:
  template <class T>
  friend class Block;
  static std::size_t index(Use use) { return static_cast<std::size_t>(use); }
  void* allocate(std::size_t bytes, Use use);
  void free(void* memory, std::size_t bytes, Use use);

  std::size_t limit_, all_ = 0, peak_of_all_ = 0;
  std::array<std::size_t, kUses> now_{}, peak_{};
};

/// Elements in an arena; freed with it.
template <class T>
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block() {
    if (arena_ != nullptr) arena_->free(data_, count_ * sizeof(T), use_);
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  operator std::span<T>() const { return {data_, count_}; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::span<T> span() const { return {data_, count_}; }

 private:
  friend class Arena;
  Block(Arena* arena, T* data, std::size_t count, Use use)
      : arena_(arena), data_(data), count_(count), use_(use) {}
  void swap(Block& other) {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(use_, other.use_);
  }
  Arena* arena_ = nullptr;
  T* data_ = nullptr;
  std::size_t count_ = 0;
  Use use_ = Use::staging;
};

template <class T>
Block<T> Arena::take(std::size_t count, Use use) {
  return {this, static_cast<T*>(allocate(count * sizeof(T), use)), count, use};
}

}  // namespace training
