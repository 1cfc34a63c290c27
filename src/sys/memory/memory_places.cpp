// SPDX-License-Identifier: Apache-2.0
// Tells the memory of GPUs from the memory of processors.
#include "sys/memory/memory_places.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace coll {
namespace {

/// cuPointerGetAttributes, as NVIDIA's driver API reference declares it.
using Query = int(unsigned count, const int* attributes, void** values, unsigned long long pointer);

/// The driver's, once it has been found.
std::atomic<Query*> g_query{nullptr};

/// How many libraries this process has ever loaded. It takes 6 ns and a lock of the loader's, while
/// to look for a library that is not loaded takes 16 us.
std::uint64_t loads() {
  std::uint64_t count = 0;
  const auto first = [](dl_phdr_info* info, std::size_t, void* into) {
    *static_cast<std::uint64_t*>(into) = info->dlpi_adds;
    return 1;  // the count is the same for every library
  };
  dl_iterate_phdr(first, &count);
  return count;
}

Query* find_query() {
  static std::atomic<std::uint64_t> looked{0};  // what loads() was at the last look
  const std::uint64_t now = loads();
  if (looked.load(std::memory_order_acquire) == now) return g_query.load(std::memory_order_acquire);
  // The handle is kept, and with it the driver.
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver != nullptr) {
    g_query.store(reinterpret_cast<Query*>(dlsym(driver, "cuPointerGetAttributes")),
                  std::memory_order_release);
  }
  looked.store(now, std::memory_order_release);
  return g_query.load(std::memory_order_acquire);
}

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

MemoryPlace ask(Query& query, const void* address) {
  constexpr int kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9;  // CUpointer_attribute
  constexpr unsigned kDevice = 2;                                     // CUmemorytype
  const int attributes[] = {kMemoryType, kIsManaged, kDeviceOrdinal};
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  void* values[] = {&type, &managed, &ordinal};
  // For a pointer that it does not know, the driver gives zeros. Before cuInit it fails.
  if (query(3, attributes, values, reinterpret_cast<std::uintptr_t>(address)) != 0) return {};
  if (type != kDevice || managed != 0) return {};
  return {.kind = MemoryKind::device, .device = ordinal};
}

}  // namespace

MemoryPlace place_of_memory(const void* address) {
  Query* query = g_query.load(std::memory_order_acquire);
  if (query == nullptr) {
    const std::uintptr_t block = block_of(address);
    std::uintptr_t& place = place_for(block);
    if (place == block) return {};
    query = find_query();
    if (query == nullptr) {
      place = block;
      return {};
    }
  }
  return ask(*query, address);
}

bool may_have_device_memory() {
  return g_query.load(std::memory_order_acquire) != nullptr || find_query() != nullptr;
}

}  // namespace coll
