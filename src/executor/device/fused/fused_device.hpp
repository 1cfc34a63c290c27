// SPDX-License-Identifier: Apache-2.0
// A GPU as fused kernels need it: the kernel, and how many blocks may run at once.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>

#include "executor/device/stream_device.hpp"

namespace coll {

/// One of each for a process, which keeps them to its end. Any thread.
class FusedDevice {
 public:
  /// Loads the image if nobody has before, for which the device must rest: kernels that wait for
  /// this rank would wait for the loading, and the loading perhaps for them.
  static Result<FusedDevice*> of(StreamDevice& device, std::span<const std::byte> image);
  FusedDevice(const FusedDevice&) = delete;
  FusedDevice& operator=(const FusedDevice&) = delete;

  [[nodiscard]] StreamDevice& device() const { return device_; }
  [[nodiscard]] CudaFunction kernel() const { return kernel_; }

  /// Blocks that wait for one another must all have a place at once, those of all ranks of the
  /// process too. So each executor reserves its own: at most `wanted`, and its part if `ranks` of
  /// this process use the device. A block has a multiprocessor. 0: none are left.
  unsigned reserve(unsigned wanted, unsigned ranks);
  void give_back(unsigned blocks) { reserved_.fetch_sub(blocks, std::memory_order_relaxed); }

 private:
  explicit FusedDevice(StreamDevice& device) : device_(device) {}
  Status load(std::span<const std::byte> image);

  StreamDevice& device_;
  CudaFunction kernel_ = nullptr;
  std::atomic<unsigned> reserved_{0};
};

}  // namespace coll
