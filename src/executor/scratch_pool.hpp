// SPDX-License-Identifier: Apache-2.0
// The memory that calls need beside their users' buffers.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace coll {

/// What scratch is for, which decides who must be able to read it.
enum class ScratchUse : std::uint8_t {
  program,  ///< what a schedule keeps between its steps: this process
  staging,  ///< messages that several ranks of this host read in place: these ranks too
  call,     ///< buffers of a call, packed or computed: these ranks too if that is possible
  device,   ///< the same, and GPUs copy them
  gpu,      ///< buffers of a call in a GPU's memory
};

/// The bytes that are reserved for each use; memory becomes real where it is touched. Any thread
/// may read them.
class ScratchCounts {
 public:
  [[nodiscard]] std::uint64_t of(ScratchUse use) const {
    return bytes_[static_cast<std::size_t>(use)].load(std::memory_order_relaxed);
  }

 private:
  friend class ScratchPool;
  std::array<std::atomic<std::uint64_t>, 5> bytes_{};
};

/// Gives out memory by its use. It keeps the blocks that calls give back, so a call that repeats
/// gets the same buffers, and nothing new is bound. One thread at a time uses it.
class ScratchPool {
 public:
  using Memory = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;
  /// Makes memory that the other ranks of this host can read in place; null if there is none.
  using Readable = std::function<Memory(std::size_t bytes)>;

  /// An empty `readable`: no rank reads memory of another one.
  explicit ScratchPool(Readable readable = {}) : readable_(std::move(readable)) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Gives itself back; the pool must outlive it.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept = default;
    Block& operator=(Block&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(use_, other.use_);
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block() {
      if (memory_) pool_->give_back(std::move(memory_), bytes_, use_);
    }
    [[nodiscard]] std::byte* data() const { return memory_.get(); }
    /// Never gives the memory back: somebody may still read it.
    void abandon() { static_cast<void>(memory_.release()); }

   private:
    friend class ScratchPool;
    Block(ScratchPool& pool, ScratchUse use, Memory memory, std::size_t bytes)
        : pool_(&pool), use_(use), memory_(std::move(memory)), bytes_(bytes) {}
    ScratchPool* pool_ = nullptr;
    ScratchUse use_ = ScratchUse::program;
    Memory memory_;
    std::size_t bytes_ = 0;
  };

  /// What is done to new memory before it is given out for the first time. For a GPU's it gets
  /// none, and makes it.
  using Prepare = std::function<Memory(Memory memory, std::size_t bytes)>;

  /// A block of at least `bytes`, neither zeroed nor touched. Null, for staging, if no other rank
  /// could read it. Throws std::bad_alloc.
  Block take(std::size_t bytes, ScratchUse use, const Prepare& prepare = {});

  [[nodiscard]] const ScratchCounts& counts() const { return counts_; }

 private:
  // Limits of the calls' idle blocks; but the last block given back is always kept.
  static constexpr std::size_t kMostIdle = 32;  ///< blocks
  static constexpr std::size_t kMostIdleBytes = std::size_t{64} << 20;
  struct Idle {
    Memory memory;
    std::size_t bytes = 0;
    ScratchUse use = ScratchUse::call;
  };
  static bool is_of_call(ScratchUse use) {
    return use == ScratchUse::call || use == ScratchUse::device || use == ScratchUse::gpu;
  }
  Memory take_idle(std::size_t bytes, ScratchUse use);
  /// The shortest that has `bytes`, which becomes what it has.
  Memory take_idle_of_gpu(std::size_t& bytes);
  [[nodiscard]] Memory make(std::size_t bytes, ScratchUse use) const;
  void give_back(Memory memory, std::size_t bytes, ScratchUse use) noexcept;
  std::atomic<std::uint64_t>& count(ScratchUse use) {
    return counts_.bytes_[static_cast<std::size_t>(use)];
  }

  Readable readable_;
  ScratchCounts counts_;
  std::vector<Idle> idle_;  ///< the last given back is the last
  std::size_t idle_bytes_ = 0;
  /// They stay as long as the pool: to free one may wait for streams that wait for whoever frees.
  /// Each is a power of two long and serves shorter calls too, so there are few.
  std::vector<Idle> idle_of_gpu_;
  std::size_t taken_ = 0;  ///< blocks of calls; `idle_` has room for them
};

}  // namespace coll
