// SPDX-License-Identifier: Apache-2.0
// Copies on streams of the devices' primary contexts.
#include "sys/cuda/device_copies.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/primary_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

/// A device's primary context and the library's stream on it. Both stay for good.
struct Device {
  CudaContext context = nullptr;
  CudaStream stream = nullptr;
};

Result<Device> make_device(const CudaDriver& driver, int ordinal) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  const std::string name = "CUDA device " + std::to_string(ordinal);
  COLL_ASSIGN(const PrimaryContext primary, PrimaryContext::retain(driver, ordinal));
  Device made{.context = primary.context};
  const CurrentContext current(driver, made.context);
  if (current.error() != 0) return driver.failed_to(name + ": its context", current.error());
  if (const int error = driver.stream_create(&made.stream, kNonBlocking))
    return driver.failed_to(name + ": a stream", error);
  return made;
}

using Devices = std::vector<std::pair<int, Device>>;  // by CUDA's number

ForkSafeMutex g_devices_mutex;  // guards `g_devices`
Devices* g_devices = nullptr;   // stays for good

const Device* known_device(int ordinal) {
  if (g_devices == nullptr) return nullptr;
  const auto found = std::ranges::find(*g_devices, ordinal, &Devices::value_type::first);
  return found == g_devices->end() ? nullptr : &found->second;
}

Result<Device> device_of(const CudaDriver& driver, int ordinal) {
  {
    const std::lock_guard lock(g_devices_mutex);
    if (const Device* const known = known_device(ordinal)) return *known;
  }
  // Without the lock, as it takes long. Two threads may both make it: then one stream is idle.
  COLL_ASSIGN(const Device made, make_device(driver, ordinal));
  const std::lock_guard lock(g_devices_mutex);
  if (const Device* const known = known_device(ordinal)) return *known;
  if (g_devices == nullptr) g_devices = new Devices();
  g_devices->emplace_back(ordinal, made);
  return made;
}

/// Which context and device an address belongs to; device -1: memory of the host.
struct Owner {
  CudaContext context = nullptr;
  int device = -1;
};

Owner owner_of(const CudaDriver& driver, const void* address) {
  const MemoryPlace place = place_of(driver, address);
  if (place.kind == MemoryKind::host) return {};
  constexpr int kContext = 1;  // CUpointer_attribute
  Owner owner{nullptr, place.device};
  void* values[] = {&owner.context};
  if (driver.pointer_attributes(1, &kContext, values, cuda_address(address)) != 0)
    owner.context = nullptr;
  return owner;
}

}  // namespace

void DeviceCopies::add(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || !failure_.ok()) return;
  const CudaDriver* const driver = on_host_ ? nullptr : found_cuda_driver();
  Owner owner;
  if (driver != nullptr) owner = owner_of(*driver, to);
  if (driver != nullptr && owner.device < 0) owner = owner_of(*driver, from);
  if (owner.device < 0) {
    std::memmove(to, from, bytes);
    return;
  }
  const Result<Device> device = device_of(*driver, owner.device);
  if (!device.ok()) {
    failure_ = device.status();
    return;
  }
  // Memory of pools and of mapped allocations belongs to no context.
  const bool primary = owner.context == nullptr || owner.context == device->context;
  const CurrentContext current(*driver, primary ? device->context : owner.context);
  int error = current.error();
  if (error == 0 && primary) {
    if (std::ranges::find(devices_, owner.device) == devices_.end())
      devices_.push_back(owner.device);
    error = driver->copy_async(cuda_address(to), cuda_address(from), bytes, device->stream);
  } else if (error == 0) {  // whoever owns the context may end it: no stream of ours is left in it
    error = driver->copy(cuda_address(to), cuda_address(from), bytes);
    if (error == 0) error = driver->stream_synchronize(nullptr);  // it may return before its end
  }
  if (error == 0) return;
  failure_ = driver->failed_to("a copy of " + std::to_string(bytes) + " bytes with CUDA device " +
                                   std::to_string(owner.device),
                               error);
}

Status DeviceCopies::finish() {
  const auto [code, device] = wait();
  if (!failure_.ok() || code == 0) return failure_;
  return found_cuda_driver()->failed_to("copies with CUDA device " + std::to_string(device), code);
}

/// The first error.
DeviceCopies::Error DeviceCopies::wait() noexcept {
  Error first;
  for (const int ordinal : devices_) {
    const CudaDriver& driver = *found_cuda_driver();
    const Device device = [ordinal] {
      const std::lock_guard lock(g_devices_mutex);
      return *known_device(ordinal);
    }();
    const CurrentContext current(driver, device.context);
    int error = current.error();
    if (error == 0) error = driver.stream_synchronize(device.stream);
    if (error != 0 && first.code == 0) first = {error, ordinal};
  }
  devices_.clear();
  return first;
}

Status await_default_stream(int device) {
  const CudaDriver& driver = *found_cuda_driver();
  COLL_ASSIGN(const Device made, device_of(driver, device));
  const CurrentContext current(driver, made.context);
  std::optional<BesideCaptures> beside;
  if (driver.exchange_capture_mode != nullptr) beside.emplace(driver);
  const int error = current.error() != 0 ? current.error() : driver.stream_synchronize(nullptr);
  return error == 0 ? Status()
                    : driver.failed_to(
                          "the default stream of CUDA device " + std::to_string(device), error);
}

bool pin_memory(void* begin, std::size_t bytes, int device) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: for all contexts
  const CudaDriver* const driver = found_cuda_driver();
  if (driver == nullptr || !driver->copies()) return false;
  const auto made = device_of(*driver, device);
  if (!made.ok()) return false;
  const CurrentContext current(*driver, made->context);
  return current.error() == 0 && driver->host_register(begin, bytes, kPortable) == 0;
}

void unpin_memory(void* begin, int device) {
  const CudaDriver* const driver = found_cuda_driver();
  const auto made = device_of(*driver, device);
  if (!made.ok()) return;
  const CurrentContext current(*driver, made->context);
  if (current.error() == 0) driver->host_unregister(begin);
}

}  // namespace coll
