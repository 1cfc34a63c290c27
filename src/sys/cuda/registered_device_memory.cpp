// SPDX-License-Identifier: Apache-2.0
// The list of what is registered, and the checks before that.
#include "sys/cuda/registered_device_memory.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "sys/cuda/primary_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

using Kept = RegisteredDeviceMemory::Kept;

ForkSafeMutex g_registered_mutex;                          // guards what follows
std::vector<Kept>& g_registered = *new std::vector<Kept>;  // stays for good
std::atomic<unsigned> g_registered_count{0};  // most processes have none: then no lock is needed

/// Finds where the memory lies, and what others need to open it.
Status describe(RegisteredDeviceMemory& made) {
  const CudaDriver& driver = *loaded_cuda_driver();
  if (const std::string missing = driver.missing_for_streams(); !missing.empty())
    return failed(Code::unsupported, "the driver has no " + missing,
                  "use a driver of CUDA 11.7 or newer");
  COLL_ASSIGN(const PrimaryContext primary, PrimaryContext::retain(driver, made.device));
  const Result<ExportedMemory> exported = export_memory(primary.context, made.begin);
  if (!exported.ok()) {
    return failed(Code::invalid_argument, exported.status().failure()->what,
                  "register memory of cuMemAlloc or cudaMalloc, not of a pool");
  }
  made.exported = *exported;
  made.allocation = allocation_of(driver, made.begin);
  if (made.bytes > made.exported.bytes) {
    return failed(Code::invalid_argument,
                  std::to_string(made.bytes) + " bytes, and the allocation has only " +
                      std::to_string(made.exported.bytes) + " from there on",
                  "register the allocations one by one");
  }
  return {};
}

/// Has it not been freed? Then other memory may lie there.
bool is_there(const RegisteredDeviceMemory& one) {
  return allocation_of(*loaded_cuda_driver(), one.begin) == one.allocation;
}

bool overlap(const RegisteredDeviceMemory& a, const RegisteredDeviceMemory& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

/// The lowest that is free; 0: none is.
unsigned free_entry() {
  for (unsigned entry = 1; entry <= RegisteredDeviceMemory::kMost; ++entry)
    if (std::ranges::none_of(g_registered, [&](const Kept& one) { return one->entry == entry; }))
      return entry;
  return 0;
}

auto find_begin(CudaAddress begin) {
  return std::ranges::find_if(g_registered, [&](const Kept& one) { return one->begin == begin; });
}

}  // namespace

Status RegisteredDeviceMemory::add(const void* address, std::size_t bytes) {
  RegisteredDeviceMemory made;
  made.begin = cuda_address(address);
  made.bytes = bytes;
  made.device = place_of(*loaded_cuda_driver(), address).device;
  COLL_TRY(describe(made).with_context("memory of CUDA device " + std::to_string(made.device)));
  const std::lock_guard lock(g_registered_mutex);
  if (std::ranges::any_of(g_registered, [&](const Kept& one) { return overlap(*one, made); }))
    return failed(Code::invalid_argument, "some of the memory is registered already",
                  "deregister that first");
  made.entry = free_entry();
  if (made.entry == 0) {
    return failed(Code::out_of_resources,
                  "a process can register " + std::to_string(kMost) + " ranges of GPUs' memory",
                  "register whole allocations instead of their parts");
  }
  g_registered.push_back(std::make_shared<const RegisteredDeviceMemory>(made));
  g_registered_count.store(static_cast<unsigned>(g_registered.size()), std::memory_order_release);
  return {};
}

Status RegisteredDeviceMemory::remove(const void* address) {
  const std::lock_guard lock(g_registered_mutex);
  const auto found = find_begin(cuda_address(address));
  if (found == g_registered.end())
    return failed(Code::invalid_argument, "no registered memory begins there");
  if (found->use_count() > 1) {
    return failed(Code::invalid_usage,
                  "other processes have the memory open, for communicators that were made since it "
                  "was registered",
                  "destroy these on all ranks first");
  }
  g_registered.erase(found);
  g_registered_count.store(static_cast<unsigned>(g_registered.size()), std::memory_order_release);
  return {};
}

bool RegisteredDeviceMemory::begins_at(const void* address) {
  if (g_registered_count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(g_registered_mutex);
  return find_begin(cuda_address(address)) != g_registered.end();
}

unsigned RegisteredDeviceMemory::entry_of(const void* address, std::size_t bytes) {
  if (g_registered_count.load(std::memory_order_acquire) == 0) return 0;
  const CudaAddress begin = cuda_address(address);
  const std::lock_guard lock(g_registered_mutex);
  for (const Kept& one : g_registered) {
    if (begin >= one->begin && begin - one->begin <= one->bytes &&
        bytes <= one->bytes - (begin - one->begin))
      return is_there(*one) ? one->entry : 0;
  }
  return 0;
}

std::vector<Kept> RegisteredDeviceMemory::of_device(int device) {
  std::vector<Kept> found;
  const std::lock_guard lock(g_registered_mutex);
  std::ranges::copy_if(g_registered, std::back_inserter(found),
                       [&](const Kept& one) { return one->device == device && is_there(*one); });
  return found;
}

}  // namespace coll
