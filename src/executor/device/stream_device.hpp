// SPDX-License-Identifier: Apache-2.0
// A GPU as work on its streams needs it: its primary context and its kernels.
#pragma once
#include <array>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// One of each for a process, which keeps them to its end. Any thread.
class StreamDevice {
 public:
  /// By CUDA's number. The program has loaded and initialized the driver.
  static Result<StreamDevice*> of(int ordinal);
  /// By its PCI address, as "0000:0f:00.0".
  static Result<StreamDevice*> at_bus(std::string_view bus);
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  /// The device's primary one.
  [[nodiscard]] CudaContext context() const { return context_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] unsigned multiprocessors() const { return multiprocessors_; }
  /// A stream for copies of a call's buffers, which waits for no default stream.
  [[nodiscard]] CudaStream copy_stream() const { return copy_stream_; }
  /// Waits for what the program does on the default stream of the device's primary context.
  [[nodiscard]] Status await_default_stream() const;
  /// The kernel of one pass. Loads the image, and finds the kernel in it, if nobody has before. The
  /// device is current.
  Result<CudaFunction> kernel(ReduceOp op, DataType type, bool finish,
                              std::span<const std::byte> image);
  /// As `driver().failed_to`, and says which device it was.
  [[nodiscard]] Status failed_to(const std::string& what, int error) const;

 private:
  StreamDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status open();
  Status load(std::span<const std::byte> image);

  const CudaDriver& driver_;
  const int ordinal_;
  CudaContext context_ = nullptr;
  CudaStream copy_stream_ = nullptr;
  unsigned multiprocessors_ = 1;
  std::mutex mutex_;  // of what follows
  CudaModule module_ = nullptr;
  std::array<std::array<std::array<CudaFunction, 2>, kDataTypes>, kReduceOps> kernels_{};
};

}  // namespace coll
