// SPDX-License-Identifier: Apache-2.0
// A GPU as work on its streams needs it, found once for the process.
#include "executor/device/stream_device.hpp"

#include <cstdio>
#include <memory>
#include <vector>

#include "reduce/device/device_kernels.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/primary_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

using StreamDevices = std::vector<std::pair<int, StreamDevice*>>;  // by CUDA's number

ForkSafeMutex g_stream_devices_mutex;       // guards `g_stream_devices`
StreamDevices* g_stream_devices = nullptr;  // stays for good

StreamDevice* known_stream_device(int ordinal) {
  if (g_stream_devices == nullptr) return nullptr;
  for (const auto& [number, device] : *g_stream_devices)
    if (number == ordinal) return device;
  return nullptr;
}

}  // namespace

Result<StreamDevice*> StreamDevice::of(int ordinal) {
  {
    const std::lock_guard lock(g_stream_devices_mutex);
    if (StreamDevice* const known = known_stream_device(ordinal)) return known;
  }
  const CudaDriver* const driver = loaded_cuda_driver();
  if (driver == nullptr) return failed(Code::unsupported, "the program has not loaded CUDA");
  if (const std::string missing = driver->missing_for_streams(); !missing.empty())
    return failed(Code::unsupported, "the CUDA driver has no " + missing);
  // Without the lock, as it takes long.
  std::unique_ptr<StreamDevice> made(new StreamDevice(*driver, ordinal));
  COLL_TRY(made->open());
  const std::lock_guard lock(g_stream_devices_mutex);
  if (StreamDevice* const known = known_stream_device(ordinal)) return known;
  if (g_stream_devices == nullptr) g_stream_devices = new StreamDevices();
  g_stream_devices->emplace_back(ordinal, made.get());
  return made.release();
}

Result<StreamDevice*> StreamDevice::at_bus(std::string_view bus) {
  COLL_ASSIGN(const int ordinal, ordinal_at_bus(bus));
  return of(ordinal);
}

Result<int> StreamDevice::ordinal_at_bus(std::string_view bus) {
  const CudaDriver* const driver = loaded_cuda_driver();
  if (driver == nullptr) return failed(Code::unsupported, "the program has not loaded CUDA");
  if (const std::string missing = driver->missing_for_streams(); !missing.empty())
    return failed(Code::unsupported, "the CUDA driver has no " + missing);
  int device = -1;
  for (int ordinal = 0; driver->device_get(&device, ordinal) == 0; ++ordinal) {
    constexpr int kDomain = 50, kBus = 33, kDevice = 34;  // CU_DEVICE_ATTRIBUTE_PCI_…_ID
    int at[3] = {0, 0, 0};
    if (driver->device_attribute(&at[0], kDomain, device) != 0 ||
        driver->device_attribute(&at[1], kBus, device) != 0 ||
        driver->device_attribute(&at[2], kDevice, device) != 0)
      continue;
    char address[48];
    std::snprintf(address, sizeof address, "%04x:%02x:%02x.0", static_cast<unsigned>(at[0]),
                  static_cast<unsigned>(at[1]), static_cast<unsigned>(at[2]));
    if (bus == address) return ordinal;
  }
  return failed(Code::unsupported,
                "CUDA has no device at " + std::string(bus) + " in this process");
}

Status StreamDevice::failed_to(const std::string& what, int error) const {
  return driver_.failed_to("CUDA device " + std::to_string(ordinal_) + ": " + what, error);
}

Status StreamDevice::open() {
  constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  COLL_ASSIGN(const PrimaryContext primary, PrimaryContext::retain(driver_, ordinal_));
  context_ = primary.context;
  int count = 0;
  if (const int error = driver_.device_attribute(&count, kMultiprocessors, primary.device))
    return failed_to("its attributes", error);
  if (count > 0) multiprocessors_ = static_cast<unsigned>(count);
  const CurrentContext current(driver_, context_);
  const BesideCaptures beside(driver_);
  if (current.error() != 0) return failed_to("its context", current.error());
  int least = 0;
  if (const int error = driver_.stream_priorities(&least, &priority_))
    return failed_to("priorities of streams", error);
  COLL_ASSIGN(copy_stream_, new_stream());
  return {};
}

Result<CudaStream> StreamDevice::new_stream() const {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  CudaStream stream = nullptr;
  if (const int error = driver_.stream_create_with_priority(&stream, kNonBlocking, priority_))
    return failed_to("a stream", error);
  return stream;
}

Status StreamDevice::load_kernels(std::span<const std::byte> image) {
  const CurrentContext current(driver_, context_);
  if (current.error() != 0) return failed_to("its context", current.error());
  const std::lock_guard lock(mutex_);
  return load(image);
}

Status StreamDevice::load(std::span<const std::byte> image) {
  if (module_ != nullptr) return {};
  const BesideCaptures beside(driver_);
  if (const int error = driver_.module_load(&module_, image.data())) {
    module_ = nullptr;
    return failed_to("loading the kernels", error);
  }
  return {};
}

Result<CudaFunction> StreamDevice::kernel(ReduceOp op, DataType type, bool finish,
                                          std::span<const std::byte> image) {
  const std::lock_guard lock(mutex_);
  CudaFunction& known =
      kernels_[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)][finish ? 1 : 0];
  if (known != nullptr) return known;
  COLL_TRY(load(image));
  const BesideCaptures beside(driver_);  // the driver may load it only now
  const std::string name = reduce::device_kernel(op, type, finish);
  CudaFunction found = nullptr;
  if (const int error = driver_.module_function(&found, module_, name.c_str()))
    return failed_to("the kernel " + name, error);
  return known = found;
}

}  // namespace coll
