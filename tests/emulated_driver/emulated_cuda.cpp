// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for machines without a GPU: host memory that the test claims for a GPU.
#include "emulated_driver/emulated_cuda.hpp"

#include <iterator>
#include <map>
#include <mutex>

namespace {

struct Claimed {
  std::uintptr_t end;
  int device;
  bool managed;
};
std::mutex mutex;
std::map<std::uintptr_t, Claimed> claims;  // by where they begin

enum : int { kSuccess = 0, kInvalidValue = 1 };                      // CUresult
enum : int { kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9 };  // CUpointer_attribute
enum : unsigned { kUnknownMemory = 0, kDeviceMemory = 2 };           // CUmemorytype

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void emulated_cuda_claim(const void* begin, std::size_t bytes, int device, int managed) {
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  claims[first] = {first + bytes, device, managed != 0};
}

void emulated_cuda_unclaim(const void* begin) {
  const std::lock_guard lock(mutex);
  claims.erase(reinterpret_cast<std::uintptr_t>(begin));
}

int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                           unsigned long long pointer) {
  const std::lock_guard lock(mutex);
  const auto after = claims.upper_bound(static_cast<std::uintptr_t>(pointer));
  const Claimed* claimed = nullptr;
  if (after != claims.begin() && std::prev(after)->second.end > pointer) {
    claimed = &std::prev(after)->second;
  }
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case kMemoryType:
        *static_cast<unsigned*>(values[i]) = claimed != nullptr ? kDeviceMemory : kUnknownMemory;
        break;
      case kIsManaged:
        *static_cast<unsigned*>(values[i]) = claimed != nullptr && claimed->managed ? 1 : 0;
        break;
      case kDeviceOrdinal:
        *static_cast<int*>(values[i]) = claimed != nullptr ? claimed->device : -2;
        break;
      default:
        return kInvalidValue;
    }
  }
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
