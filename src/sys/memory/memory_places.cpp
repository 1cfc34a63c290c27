// SPDX-License-Identifier: Apache-2.0
// Tells the memory of GPUs from the memory of processors.
#include "sys/memory/memory_places.hpp"

#include <array>
#include <bit>
#include <cstdint>

#include "sys/cuda/cuda_driver.hpp"

namespace coll {
namespace {

/// Memory of one kind only: a GPU's pages are at least as long.
std::uintptr_t block_of(const void* address) {
  constexpr int kBlockBits = 16;
  return reinterpret_cast<std::uintptr_t>(address) >> kBlockBits;
}

/// This thread's place for a block that it asked for when there was no driver. So calls that repeat
/// take no lock.
std::uintptr_t& place_for(std::uintptr_t block) {
  static thread_local std::array<std::uintptr_t, 64> asked{};
  static_assert(std::has_single_bit(asked.size()));
  const std::uint64_t key = block * 0x9e3779b97f4a7c15ULL;
  return asked[key >> (64 - std::countr_zero(asked.size()))];  // Fibonacci hashing
}

}  // namespace

MemoryPlace place_of_memory(const void* address) {
  const CudaDriver* driver = found_cuda_driver();
  if (driver == nullptr) {
    std::uintptr_t& place = place_for(block_of(address));
    if (place == block_of(address)) return {};
    driver = loaded_cuda_driver();
    if (driver == nullptr) {
      place = block_of(address);
      return {};
    }
  }
  return place_of(*driver, address);
}

}  // namespace coll
