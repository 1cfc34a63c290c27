// SPDX-License-Identifier: Apache-2.0
// Times copies from memory of a GPU to memory of the same GPU.
#include "gpu/gpu_copy_limit.hpp"

#include <algorithm>
#include <cmath>

namespace perf {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 30;
constexpr int kSizes = 3;
constexpr int kRounds = 5;
constexpr double kRoundS = 5e-3;  // long beside the clock of events, 0.5 us

/// A stream and the two events around what is timed on it.
class Stopclock {
 public:
  explicit Stopclock(const Gpu& gpu) : gpu_(gpu), queue_(gpu) {
    for (GpuEvent* event : {&begin_, &end_})
      gpu_.require(gpu_.driver().event_create(event, 0), "making an event");
  }
  Stopclock(const Stopclock&) = delete;
  Stopclock& operator=(const Stopclock&) = delete;
  ~Stopclock() {
    for (GpuEvent event : {begin_, end_}) gpu_.driver().event_destroy(event);
  }

  /// Seconds of one of `count` copies back to back.
  [[nodiscard]] double copy(GpuAddress to, GpuAddress from, std::size_t bytes, int count) const {
    const GpuDriver& driver = gpu_.driver();
    gpu_.require(driver.event_record(begin_, queue_.handle()), "recording an event");
    for (int i = 0; i < count; ++i)
      gpu_.require(driver.copy_async(to, from, bytes, queue_.handle()),
                   "copying within the device");
    gpu_.require(driver.event_record(end_, queue_.handle()), "recording an event");
    gpu_.require(driver.event_synchronize(end_), "waiting for copies within the device");
    float milliseconds = 0;
    gpu_.require(driver.event_elapsed(&milliseconds, begin_, end_), "reading events");
    return static_cast<double>(milliseconds) / 1e3 / count;
  }

  void clear(GpuAddress to, std::size_t bytes) const {
    gpu_.require(gpu_.driver().set_async(to, 0, bytes, queue_.handle()), "clearing memory");
    gpu_.require(gpu_.driver().stream_synchronize(queue_.handle()), "clearing memory");
  }

 private:
  const Gpu& gpu_;
  GpuQueue queue_;
  GpuEvent begin_ = nullptr, end_ = nullptr;
};

}  // namespace

GpuCopy timed_copy(std::size_t bytes, double seconds) {
  return {bytes, 2 * static_cast<double>(bytes) / seconds};
}

double GpuCopyLimit::moved_per_s() const {
  double best = 0;
  for (const GpuCopy& copy : copies) best = std::max(best, copy.moved_per_s);
  return best;
}

std::vector<std::size_t> copy_sizes(std::size_t free_bytes) {
  std::size_t size = kLargest;
  while (size > 1 && size > free_bytes / 4) size /= 2;
  std::vector<std::size_t> sizes;
  for (int i = 0; i < kSizes && size > 0; ++i, size /= 2) sizes.push_back(size);
  return sizes;
}

GpuCopyLimit measure_copy_limit(const Gpu& gpu) {
  const std::vector<std::size_t> sizes = copy_sizes(gpu.free_bytes());
  const GpuMemory from(gpu, sizes.front()), to(gpu, sizes.front());
  const Stopclock clock(gpu);
  clock.clear(from.address(), sizes.front());
  GpuCopyLimit limit;
  for (const std::size_t bytes : sizes) {
    const double first = clock.copy(to.address(), from.address(), bytes, 1);  // the clocks rise
    const int count = std::clamp(static_cast<int>(kRoundS / std::max(first, 1e-6)), 1, 100);
    double best = first;
    for (int round = 0; round < kRounds; ++round)
      best = std::min(best, clock.copy(to.address(), from.address(), bytes, count));
    // A clock that stands still says nothing.
    if (best > 0) limit.copies.push_back(timed_copy(bytes, best));
  }
  return limit;
}

}  // namespace perf
