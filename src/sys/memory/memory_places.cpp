// SPDX-License-Identifier: Apache-2.0
// Tells the memory of GPUs from the memory of processors.
#include "sys/memory/memory_places.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sys/cuda/cuda_driver.hpp"

namespace coll {
namespace {

/// Memory of one kind only: a GPU's pages are at least as long.
std::uintptr_t block_of(const void* address) {
  constexpr int kBlockBits = 16;
  return reinterpret_cast<std::uintptr_t>(address) >> kBlockBits;
}

/// The blocks that this thread asked for when there was no driver. Calls that repeat find theirs
/// here and take no lock of the loader's, as long as no more than `kWays` of them meet in a set.
class HostBlocks {
 public:
  [[nodiscard]] bool has(std::uintptr_t block) const {
    return std::ranges::count(sets_[set_of(block)], block) != 0;
  }
  /// The set's oldest goes.
  void add(std::uintptr_t block) {
    Set& set = sets_[set_of(block)];
    std::ranges::copy_backward(set.begin(), set.end() - 1, set.end());
    set.front() = block;
  }

 private:
  static constexpr int kSetBits = 4;
  static constexpr std::size_t kWays = 4;
  using Set = std::array<std::uintptr_t, kWays>;

  static std::size_t set_of(std::uintptr_t block) {
    const std::uint64_t key = block * 0x9e3779b97f4a7c15ULL;  // Fibonacci hashing
    return key >> (64 - kSetBits);
  }

  std::array<Set, 1 << kSetBits> sets_{};
};

thread_local constinit HostBlocks t_host_blocks;

}  // namespace

MemoryPlace place_of_memory(const void* address) {
  const CudaDriver* driver = found_cuda_driver();
  if (driver == nullptr) {
    const std::uintptr_t block = block_of(address);
    if (t_host_blocks.has(block)) return {};
    driver = loaded_cuda_driver();
    if (driver == nullptr) {
      t_host_blocks.add(block);
      return {};
    }
  }
  return place_of(*driver, address);
}

}  // namespace coll
