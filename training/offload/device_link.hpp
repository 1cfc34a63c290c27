// SPDX-License-Identifier: Apache-2.0
// The link between a device's memory and the host's. On a machine without a device both are host
// memory, and the link copies, counts bytes, and, for tests and benchmarks, may be slowed down.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

namespace training {

/// Any number of threads may copy at once.
class DeviceLink {
 public:
  enum class Way { to_host, to_device };

  /// Each way has that speed for itself, as on PCIe; 0: that of memory.
  explicit DeviceLink(double bytes_per_second = 0) : bytes_per_second_(bytes_per_second) {}

  void copy(Way way, void* to, const void* from, std::size_t bytes);
  [[nodiscard]] std::size_t bytes(Way way) const { return of(way).bytes; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    std::atomic<std::size_t> bytes = 0;
    Clock::time_point free_at{};  ///< when it has carried all that it was given
  };
  [[nodiscard]] const Lane& of(Way way) const { return lanes_[static_cast<std::size_t>(way)]; }

  double bytes_per_second_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;
};

}  // namespace training
