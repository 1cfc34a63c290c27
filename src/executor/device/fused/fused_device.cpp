// SPDX-License-Identifier: Apache-2.0
// A GPU as fused kernels need it, found once for the process.
#include "executor/device/fused/fused_device.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/device/fused/fused_arguments.hpp"
#include "executor/device/fused/fused_kernels.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

ForkSafeMutex g_fused_devices_mutex;                   // guards `g_fused_devices`
std::vector<FusedDevice*>* g_fused_devices = nullptr;  // stays for good

FusedDevice* known_fused_device(const StreamDevice& device) {
  if (g_fused_devices == nullptr) return nullptr;
  for (FusedDevice* known : *g_fused_devices)
    if (&known->device() == &device) return known;
  return nullptr;
}

}  // namespace

Result<FusedDevice*> FusedDevice::of(StreamDevice& device, std::span<const std::byte> image) {
  {
    const std::lock_guard lock(g_fused_devices_mutex);
    if (FusedDevice* const known = known_fused_device(device)) return known;
  }
  if (image.empty()) {
    return failed(Code::unsupported, "this build has no kernels for GPUs",
                  "build with nvcc 12.8 or newer");
  }
  // It takes long, so only those wait who load for the same device.
  const std::lock_guard loading(device.loading());
  {
    const std::lock_guard lock(g_fused_devices_mutex);
    if (FusedDevice* const known = known_fused_device(device)) return known;
  }
  std::unique_ptr<FusedDevice> made(new FusedDevice(device));
  COLL_TRY(made->load(image));
  const std::lock_guard lock(g_fused_devices_mutex);
  if (g_fused_devices == nullptr) g_fused_devices = new std::vector<FusedDevice*>();
  g_fused_devices->push_back(made.get());
  return made.release();
}

/// Launches it once for nothing: the driver may load a kernel only then.
Status FusedDevice::load(std::span<const std::byte> image) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  const CudaDriver& driver = device_.driver();
  const CurrentContext current(driver, device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  const BesideCaptures beside(driver);
  CudaModule module = nullptr;
  if (const int error = driver.module_load(&module, image.data()))
    return device_.failed_to("loading the fused kernel", error);
  if (const int error = driver.module_function(&kernel_, module, kFusedKernel))
    return device_.failed_to("finding the fused kernel", error);
  CudaStream stream = nullptr;
  if (const int error = driver.stream_create(&stream, kNonBlocking))
    return device_.failed_to("a stream", error);
  fused::FusedArguments nothing;
  void* parameters[] = {&nothing};
  int error =
      driver.launch(kernel_, 1, 1, 1, fused::kThreads, 1, 1, 0, stream, parameters, nullptr);
  if (error == 0) error = driver.stream_synchronize(stream);
  driver.stream_destroy(stream);
  return error == 0 ? Status() : device_.failed_to("launching the fused kernel", error);
}

unsigned FusedDevice::reserve(unsigned wanted, unsigned ranks) {
  const unsigned all = device_.multiprocessors();
  const unsigned most = std::min(wanted, std::max(1U, all / std::max(1U, ranks)));
  unsigned before = reserved_.load(std::memory_order_relaxed);
  unsigned got = 0;
  do {
    got = std::min(most, all - std::min(all, before));
  } while (!reserved_.compare_exchange_weak(before, before + got, std::memory_order_relaxed));
  return got;
}

}  // namespace coll
