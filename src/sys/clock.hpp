// SPDX-License-Identifier: Apache-2.0
// The one clock for waiting, and deadlines that cannot overflow.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace coll {

/// Monotonic; unaffected by anybody setting the time.
using Clock = std::chrono::steady_clock;
/// When to give up; `Deadline::max()` waits for ever.
using Deadline = Clock::time_point;

/// The time `seconds` after `start`. Only here do a user's seconds become the clock's ticks. More
/// than thirty years (also infinity, and NaN, which the doors refuse) count as thirty years: the
/// clock does not count much further, and waits add to a deadline.
inline Deadline after(double seconds, Deadline start = Clock::now()) {
  constexpr double kLongest_s = 1e9;
  const double wait_s = seconds < kLongest_s ? std::max(seconds, 0.0) : kLongest_s;
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_s));
}

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

/// Milliseconds until the deadline for poll(2), rounded up: 0 when it has passed, -1 for ever.
inline int poll_timeout(Deadline deadline) {
  if (deadline == Deadline::max()) return -1;
  const auto now = Clock::now();
  if (now >= deadline) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return left > 1'000'000 ? 1'000'000 : static_cast<int>(left);
}

}  // namespace coll
