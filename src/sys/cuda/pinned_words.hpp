// SPDX-License-Identifier: Apache-2.0
// Words by which streams and the processor wait for each other.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sys/cuda/pinned_block.hpp"

namespace coll {

/// A word of pinned memory.
struct PinnedWord {
  std::uint32_t* here = nullptr;
  CudaAddress there = 0;  ///< for devices

  [[nodiscard]] bool is_set() const {
    return std::atomic_ref(*here).load(std::memory_order_acquire) != 0;
  }
  void set(std::uint32_t value) const {
    std::atomic_ref(*here).store(value, std::memory_order_release);
  }
};

/// Gives out words, which live as long as it does.
class PinnedWords {
 public:
  PinnedWords(const CudaDriver& driver, CudaContext context) : driver_(driver), context_(context) {}
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  /// A new one, which is 0.
  Result<PinnedWord> next();
  /// Never frees them: devices may still write them.
  void abandon();

 private:
  static constexpr std::size_t kBlockBytes = 4096;
  static constexpr std::size_t kStride = 128;  ///< processors fetch cache lines in pairs

  const CudaDriver& driver_;
  const CudaContext context_;
  std::vector<PinnedBlock> blocks_;
  std::size_t used_ = kBlockBytes;  ///< bytes of the last block
};

}  // namespace coll
