// SPDX-License-Identifier: Apache-2.0
// A GPU as work on its streams needs it, found once for the process.
#include "executor/device/stream_device.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "reduce/device/device_kernels.hpp"
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

Status StreamDevice::failure(const std::string& what, int error) const {
  constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  return failed(
      error == kOutOfMemory ? Code::out_of_resources : Code::system,
      "CUDA device " + std::to_string(ordinal_) + ": " + what + ": " + driver_.describe(error));
}

Status StreamDevice::open() {
  constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  int device = -1, count = 0;
  if (const int error = driver_.device_get(&device, ordinal_)) return failure("none", error);
  if (const int error = driver_.device_attribute(&count, kMultiprocessors, device))
    return failure("its attributes", error);
  if (count > 0) multiprocessors_ = static_cast<unsigned>(count);
  if (const int error = driver_.primary_context_retain(&context_, device))
    return failure("its primary context", error);
  return {};
}

Status StreamDevice::load(std::span<const std::byte> image) {
  if (module_ != nullptr) return {};
  const BesideCaptures beside(*this);
  if (const int error = driver_.module_load(&module_, image.data())) {
    module_ = nullptr;
    return failure("loading the kernels", error);
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
  const std::string name = reduce::device_kernel(op, type, finish);
  CudaFunction found = nullptr;
  if (const int error = driver_.module_function(&found, module_, name.c_str()))
    return failure("the kernel " + name, error);
  return known = found;
}

Result<StreamMemory> StreamMemory::allocate(StreamDevice& device, std::size_t bytes) {
  const StreamDevice::BesideCaptures beside(device);
  StreamMemory made;
  made.device_ = &device;
  if (const int error = device.driver().memory_allocate(&made.address_, bytes)) {
    made.address_ = 0;
    return device.failure(std::to_string(bytes) + " bytes for a program", error);
  }
  return made;
}

StreamMemory::~StreamMemory() {
  if (address_ == 0) return;
  const StreamDevice::OnDevice current(*device_);
  const StreamDevice::BesideCaptures beside(*device_);
  device_->driver().memory_free(address_);
}

Result<WordPage> WordPage::make(StreamDevice& device) {
  constexpr unsigned kPortableAndMapped = 1 | 2;  // CU_MEMHOSTREGISTER_PORTABLE, …_DEVICEMAP
  const StreamDevice::BesideCaptures beside(device);
  void* const page = std::aligned_alloc(kBytes, kBytes);
  if (page == nullptr) return Status::out_of_memory();
  std::memset(page, 0, kBytes);
  if (const int error = device.driver().host_register(page, kBytes, kPortableAndMapped)) {
    std::free(page);
    return device.failure("registering a page of the host", error);
  }
  WordPage made;
  made.device_ = &device;
  made.words_ = static_cast<std::uint32_t*>(page);
  if (const int error = device.driver().host_address(&made.there_, page, 0))
    return device.failure("the address of a page of the host", error);
  return made;
}

WordPage::~WordPage() {
  if (words_ == nullptr) return;
  const StreamDevice::OnDevice current(*device_);
  const StreamDevice::BesideCaptures beside(*device_);
  // Where that fails, the device may still write there.
  if (device_->driver().host_unregister(words_) == 0) std::free(words_);
}

}  // namespace coll
