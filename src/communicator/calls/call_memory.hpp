// SPDX-License-Identifier: Apache-2.0
// Memory that calls need beside their buffers.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/program.hpp"

namespace coll {

/// Memory that the other ranks of this host can read in place; empty where there is none.
SharedMemory shared_memory(std::size_t bytes);

/// What a call gives back the next one of that length gets. So a call that repeats has its buffers
/// where they were, and nothing new is bound.
class CallMemory {
 public:
  /// `shared`: prefer memory that other ranks can read. `bytes` follows what it holds.
  CallMemory(bool shared, std::atomic<std::uint64_t>& bytes) : shared_(shared), bytes_(bytes) {}
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  /// Gives itself back; the CallMemory must outlive it.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept = default;
    Block& operator=(Block&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block() {
      if (memory_) of_->give_back(std::move(memory_), bytes_);
    }
    [[nodiscard]] std::byte* data() const { return memory_.get(); }

   private:
    friend class CallMemory;
    Block(CallMemory& of, SharedMemory memory, std::size_t bytes)
        : of_(&of), memory_(std::move(memory)), bytes_(bytes) {}
    CallMemory* of_ = nullptr;
    SharedMemory memory_;
    std::size_t bytes_ = 0;
  };
  /// Not zeroed.
  Block take(std::size_t bytes);

 private:
  // Of what idles; but the last block given back is always kept.
  static constexpr std::size_t kMostIdle = 32;  ///< blocks
  static constexpr std::size_t kMostIdleBytes = std::size_t{64} << 20;
  struct Idle {
    SharedMemory memory;
    std::size_t bytes = 0;
  };
  void give_back(SharedMemory memory, std::size_t bytes) noexcept;

  bool shared_;
  std::atomic<std::uint64_t>& bytes_;
  std::vector<Idle> idle_;  ///< the last given back is the last
  std::size_t idle_bytes_ = 0;
  std::size_t taken_ = 0;  ///< blocks; `idle_` has room for them
};

}  // namespace coll
