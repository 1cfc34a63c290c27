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
  /// CUDA's number of it.
  static Result<int> ordinal_at_bus(std::string_view bus);
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  /// The device's primary one.
  [[nodiscard]] CudaContext context() const { return context_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] unsigned multiprocessors() const { return multiprocessors_; }
  /// A stream that waits for no default stream. It has the highest priority: the driver may have
  /// streams of one priority share a queue of the device, where one that waits holds up others, and
  /// programs' streams seldom have this priority. The device is current.
  Result<CudaStream> new_stream() const;
  /// A stream for copies of a call's buffers, which waits for no default stream.
  [[nodiscard]] CudaStream copy_stream() const { return copy_stream_; }
  /// The kernel of one pass. Loads the image, and finds the kernel in it, if nobody has before. The
  /// device is current.
  Result<CudaFunction> kernel(ReduceOp op, DataType type, bool finish,
                              std::span<const std::byte> image);
  /// Loads the image, if nobody has before: an error says that this device cannot use it.
  Status load_kernels(std::span<const std::byte> image);
  /// For whoever loads other images.
  [[nodiscard]] std::mutex& loading() { return loading_; }
  /// As `driver().failed_to`, and says which device it was.
  [[nodiscard]] Status failed_to(const std::string& what, int error) const;

 private:
  Status load(std::span<const std::byte> image);
  StreamDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status open();

  const CudaDriver& driver_;
  const int ordinal_;
  CudaContext context_ = nullptr;
  CudaStream copy_stream_ = nullptr;
  int priority_ = 0;
  unsigned multiprocessors_ = 1;
  std::mutex loading_;
  std::mutex mutex_;  // of what follows
  CudaModule module_ = nullptr;
  std::array<std::array<std::array<CudaFunction, 2>, kDataTypes>, kReduceOps> kernels_{};
};

}  // namespace coll
