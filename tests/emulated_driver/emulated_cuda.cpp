// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for machines without a GPU: host memory that the test claims for a GPU, and memory
// that only copies of the driver reach. Copies on a stream are done when somebody waits for it: not
// to wait leaves the old bytes.
#include "emulated_driver/emulated_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

namespace {

enum : int { kSuccess = 0, kInvalidValue = 1, kIllegalAddress = 700, kRegistered = 712 };
enum : int { kContext = 1, kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9 };
enum : unsigned { kUnknownMemory = 0, kDeviceMemory = 2 };  // CUmemorytype

constexpr int kDevices = 8, kContexts = 4;

struct Context {
  int device, number;  ///< number 0: the primary one
};
Context contexts[kDevices][kContexts];

struct Claimed {
  std::uintptr_t end;
  int device;
  bool managed;
  std::byte* content;  ///< where the driver reads and writes it
  Context* context;
};
struct Copy {
  std::uintptr_t to, from;
  std::size_t bytes;
};
struct Stream {
  Context* context;
  std::vector<Copy> waiting;
};

std::mutex mutex;
std::map<std::uintptr_t, Claimed> claims;      // by where they begin
std::map<std::uintptr_t, std::size_t> pinned;  // likewise
EmulatedCudaCounts counts;
int copies_left = -1;
thread_local std::vector<Context*> current;

Claimed* find(std::uintptr_t address) {
  const auto after = claims.upper_bound(address);
  if (after == claims.begin() || std::prev(after)->second.end <= address) return nullptr;
  return &std::prev(after)->second;
}

/// Where the driver finds a byte; null if the current context does not reach it.
std::byte* reach(std::uintptr_t address) {
  const auto after = claims.upper_bound(address);
  if (after == claims.begin() || std::prev(after)->second.end <= address)
    return reinterpret_cast<std::byte*>(address);
  const auto& [begin, claimed] = *std::prev(after);
  if (current.empty() || current.back() != claimed.context) return nullptr;
  return claimed.content + (address - begin);
}

[[maybe_unused]] int copy_now(const Copy& copy) {
  if (copies_left == 0) return kIllegalAddress;
  if (copies_left > 0) --copies_left;
  std::byte* const to = reach(copy.to);
  const std::byte* const from = reach(copy.from);
  if (to == nullptr || from == nullptr) return kIllegalAddress;
  std::memcpy(to, from, copy.bytes);
  ++counts.copies;
  counts.copied_bytes += copy.bytes;
  return kSuccess;
}

/// `there`: null, or where.
void* allocate(void* there, std::size_t bytes, int device, int context) {
  const int file = memfd_create("emulated device memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  const int fixed = there == nullptr ? 0 : MAP_FIXED;
  there = mmap(there, bytes, PROT_NONE, MAP_SHARED | fixed, file, 0);
  void* const content = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(there);
  claims[first] = {first + bytes, device, false, static_cast<std::byte*>(content),
                   &contexts[device][context]};
  return there;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void emulated_cuda_claim(const void* begin, std::size_t bytes, int device, int managed) {
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  claims[first] = {first + bytes, device, managed != 0, reinterpret_cast<std::byte*>(first),
                   &contexts[device][0]};
}

void emulated_cuda_unclaim(const void* begin) {
  const std::lock_guard lock(mutex);
  claims.erase(reinterpret_cast<std::uintptr_t>(begin));
}

void* emulated_cuda_alloc(std::size_t bytes, int device, int context) {
  return allocate(nullptr, bytes, device, context);
}

void* emulated_cuda_alloc_at(void* there, std::size_t bytes, int device) {
  return allocate(there, bytes, device, 0);
}

void emulated_cuda_free(void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = claims.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == claims.end()) return;
  const std::size_t bytes = found->second.end - found->first;
  munmap(found->second.content, bytes);
  munmap(memory, bytes);
  claims.erase(found);
}

std::byte* emulated_cuda_content(void* memory) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto& [begin, claimed] = *std::prev(claims.upper_bound(address));
  return claimed.content + (address - begin);
}

void emulated_cuda_fail_after(int copies) {
  const std::lock_guard lock(mutex);
  copies_left = copies;
}

EmulatedCudaCounts emulated_cuda_counts() {
  const std::lock_guard lock(mutex);
  EmulatedCudaCounts now = counts;
  now.pinned = pinned.size();
  for (const auto& [begin, bytes] : pinned) now.pinned_bytes += bytes;
  return now;
}

int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                           unsigned long long pointer) {
  const std::lock_guard lock(mutex);
  const Claimed* const claimed = find(static_cast<std::uintptr_t>(pointer));
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case kContext:
        *static_cast<Context**>(values[i]) = claimed != nullptr ? claimed->context : nullptr;
        break;
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

#ifndef EMULATED_DRIVER_ONLY_KNOWS_POINTERS
int cuGetErrorName(int error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
  return kSuccess;
}
int cuGetErrorString(int error, const char** text) {
  *text =
      error == kIllegalAddress ? "an illegal memory access was encountered" : "invalid argument";
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidValue;
  *device = ordinal + 100;  // a handle need not be the number
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(Context** context, int device) {
  *context = &contexts[device - 100][0];
  return kSuccess;
}
int cuCtxPushCurrent_v2(Context* context) {
  current.push_back(context);
  return kSuccess;
}
int cuCtxPopCurrent_v2(Context** context) {
  if (current.empty()) return kInvalidValue;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
int cuStreamCreate(Stream** stream, unsigned flags) {
  if (flags != 1 || current.empty()) return kInvalidValue;
  *stream = new Stream{current.back(), {}};
  return kSuccess;
}
int cuStreamSynchronize(Stream* stream) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr) return current.empty() ? kInvalidValue : kSuccess;
  int error = current.empty() || current.back() != stream->context ? kInvalidValue : kSuccess;
  for (const Copy& copy : stream->waiting)
    if (error == kSuccess) error = copy_now(copy);
  stream->waiting.clear();
  return error;
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes,
                  Stream* stream) {
  const std::lock_guard lock(mutex);
  if (current.empty() || current.back() != stream->context) return kInvalidValue;
  stream->waiting.push_back({to, from, bytes});
  return kSuccess;
}
int cuMemcpy(unsigned long long to, unsigned long long from, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  return copy_now({to, from, bytes});
}
int cuMemHostRegister_v2(void* begin, std::size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(mutex);
  if (current.empty()) return kInvalidValue;
  if (!pinned.emplace(reinterpret_cast<std::uintptr_t>(begin), bytes).second) return kRegistered;
  ++counts.registrations;
  return kSuccess;
}
int cuMemHostUnregister(void* begin) {
  const std::lock_guard lock(mutex);
  return pinned.erase(reinterpret_cast<std::uintptr_t>(begin)) == 1 ? kSuccess : kInvalidValue;
}
#endif

}  // extern "C"
#pragma GCC visibility pop
