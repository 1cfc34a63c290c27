// SPDX-License-Identifier: Apache-2.0
// Calls on their way to a stream of CUDA.
#include "communicator/device/device_part.hpp"

#include <chrono>
#include <thread>

namespace coll {

void get_ready(std::span<DevicePart> parts) noexcept {
  constexpr std::chrono::seconds kLongest{1};
  constexpr std::chrono::microseconds kNap{50};
  const Deadline deadline = Clock::now() + kLongest;
  while (true) {
    bool ready = true;
    for (DevicePart& part : parts) ready &= part.is_ready();
    if (ready || Clock::now() > deadline) return;
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace coll
