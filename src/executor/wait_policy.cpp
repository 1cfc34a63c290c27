// SPDX-License-Identifier: Apache-2.0
// What a thread does while it waits: spin, yield, nap.
#include "executor/wait_policy.hpp"

#include <sched.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "transports/transport.hpp"

namespace coll {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // longer than yield, which most cores treat as a no-op
#endif
}

constexpr double kShortestNap = 20e-6;
constexpr double kLongestNap = 1e-3;
/// This many ranks that look once a millisecond take a twentieth of their core. More look less
/// often.
constexpr double kNappers = 8;
constexpr double kLongestCrowdedNap = 16e-3;

}  // namespace

void NapEnds::add(int fd) noexcept {
  if (fd < 0) return;
  try {
    polled_.push_back({fd, POLLIN, 0});
  } catch (const std::bad_alloc&) {
    // The nap is short anyway.
  }
}

void NapEnds::add(ProgressSource& source) noexcept {
  if (std::ranges::find(polled_, source.wait_fd(), &pollfd::fd) != polled_.end()) return;
  news_ |= source.has_news();
  add(source.wait_fd());
}

bool Waiter::turn() {
  ++turns_;
  if (turns_ > (policy_.ranks_per_core > 1 ? kCrowdedSpins : kSpins)) {
    sched_yield();
  } else {
    relax();
  }
  if (turns_ % kLookEvery != 0) return false;
  const Clock::time_point now = Clock::now();
  if (turns_ == kLookEvery) since_ = now;
  waited_s_ = std::chrono::duration<double>(now - since_).count();
  return true;
}

void Waiter::nap(NapEnds& ends) {
  const double crowd = std::max(1.0, policy_.ranks_per_core / kNappers);
  const double longest = std::min(kLongestNap * crowd, kLongestCrowdedNap);
  const double seconds = std::clamp(waited_s_ / 8, kShortestNap, longest);
  const timespec time{0, static_cast<long>(seconds * 1e9)};
  if (!ends.news_) ppoll(ends.polled_.data(), ends.polled_.size(), &time, nullptr);
  turns_ = 2 * kLookEvery - 1;  // look again right after the next turn; no overflow in a long wait
}

}  // namespace coll
