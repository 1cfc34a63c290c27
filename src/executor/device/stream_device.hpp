// SPDX-License-Identifier: Apache-2.0
// A GPU as work on its streams needs it: its primary context, its kernels, and memory of both
// sides.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// One of each for a process, which keeps them to its end. Any thread.
class StreamDevice {
 public:
  /// By CUDA's number. The program has loaded and initialized the driver.
  static Result<StreamDevice*> of(int ordinal);
  StreamDevice(const StreamDevice&) = delete;
  StreamDevice& operator=(const StreamDevice&) = delete;

  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  [[nodiscard]] unsigned multiprocessors() const { return multiprocessors_; }
  /// The kernel of one pass. Loads the image, and finds the kernel in it, if nobody has before. The
  /// device is current (OnDevice).
  Result<CudaFunction> kernel(ReduceOp op, DataType type, bool finish,
                              std::span<const std::byte> image);
  [[nodiscard]] Status failure(const std::string& what, int error) const;

  /// Makes the device's context current in this thread for as long as it lives.
  class OnDevice {
   public:
    explicit OnDevice(const StreamDevice& device)
        : driver_(device.driver_), error_(driver_.context_push(device.context_)) {}
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice() {
      CudaContext popped = nullptr;
      if (error_ == 0) driver_.context_pop(&popped);
    }
    [[nodiscard]] int error() const { return error_; }

   private:
    const CudaDriver& driver_;
    int error_;
  };

  /// While it lives, a capture in any thread permits this one what is no work of a stream, such as
  /// allocations.
  class BesideCaptures {
   public:
    explicit BesideCaptures(const StreamDevice& device) : driver_(device.driver_) {
      driver_.exchange_capture_mode(&mode_);
    }
    BesideCaptures(const BesideCaptures&) = delete;
    BesideCaptures& operator=(const BesideCaptures&) = delete;
    ~BesideCaptures() { driver_.exchange_capture_mode(&mode_); }

   private:
    const CudaDriver& driver_;
    int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then the one before
  };

 private:
  StreamDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status open();
  Status load(std::span<const std::byte> image);

  const CudaDriver& driver_;
  const int ordinal_;
  CudaContext context_ = nullptr;
  unsigned multiprocessors_ = 1;
  std::mutex mutex_;  // of what follows
  CudaModule module_ = nullptr;
  std::array<std::array<std::array<CudaFunction, 2>, kDataTypes>, kReduceOps> kernels_{};
};

/// Memory of a device.
class StreamMemory {
 public:
  StreamMemory() = default;
  /// On the device that is current.
  static Result<StreamMemory> allocate(StreamDevice& device, std::size_t bytes);
  StreamMemory(StreamMemory&& other) noexcept
      : device_(other.device_), address_(std::exchange(other.address_, 0)) {}
  StreamMemory& operator=(StreamMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    return *this;
  }
  /// The driver may wait for all work of the device.
  ~StreamMemory();
  [[nodiscard]] CudaAddress address() const { return address_; }
  /// Never gives it back: the device may still use it.
  void abandon() { address_ = 0; }

 private:
  StreamDevice* device_ = nullptr;
  CudaAddress address_ = 0;
};

/// A page of the host's memory whose words the device writes and waits for.
class WordPage {
 public:
  static constexpr std::size_t kBytes = 4096;
  WordPage() = default;
  /// Zeros. The device is current.
  static Result<WordPage> make(StreamDevice& device);
  WordPage(WordPage&& other) noexcept
      : device_(other.device_),
        words_(std::exchange(other.words_, nullptr)),
        there_(other.there_) {}
  WordPage& operator=(WordPage&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(words_, other.words_);
    std::swap(there_, other.there_);
    return *this;
  }
  ~WordPage();
  [[nodiscard]] std::uint32_t* words() const { return words_; }
  /// The address of the first word for the device.
  [[nodiscard]] CudaAddress there() const { return there_; }
  /// Never gives it back.
  void abandon() { words_ = nullptr; }

 private:
  StreamDevice* device_ = nullptr;
  std::uint32_t* words_ = nullptr;
  CudaAddress there_ = 0;
};

}  // namespace coll
