// SPDX-License-Identifier: Apache-2.0
// Copies at the speed of a link: a token bucket that holds a millisecond's bytes.
#include "device_link.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace training {

void DeviceLink::copy(Way way, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  Lane& lane = lanes_[static_cast<std::size_t>(way)];
  lane.bytes += bytes;
  if (bytes_per_second_ == 0) return;
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / bytes_per_second_);
  Clock::time_point end;
  {
    const std::lock_guard lock(mutex_);
    // A sleep ends late: the next copies make up for a millisecond of it.
    lane.free_at = std::max(lane.free_at, Clock::now() - std::chrono::milliseconds(1)) +
                   std::chrono::duration_cast<Clock::duration>(takes);
    end = lane.free_at;
  }
  std::this_thread::sleep_until(end);
}

}  // namespace training
