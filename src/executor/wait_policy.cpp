// SPDX-License-Identifier: Apache-2.0
// What a rank does while it waits: spin, yield, nap.
#include "executor/wait_policy.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <ctime>

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

constexpr double kLongestNap = 1e-3;
constexpr double kShortestNap = 20e-6;

/// Sleeps, or until a socket has something to read.
void nap(double seconds, std::span<Connection* const> connections) {
  constexpr std::size_t kMost = 64;
  pollfd sockets[kMost];
  nfds_t count = 0;
  for (const Connection* connection : connections) {
    if (count == kMost) break;
    if (const int fd = connection->wait_fd(); fd >= 0) sockets[count++] = {fd, POLLIN, 0};
  }
  const timespec time{0, static_cast<long>(seconds * 1e9)};
  ppoll(sockets, count, &time, nullptr);
}

}  // namespace

bool Waiter::turn(std::span<Connection* const> connections) {
  ++turns_;
  if (turns_ > (policy_.crowded ? kCrowdedSpins : kSpins)) {
    sched_yield();
  } else {
    relax();
  }
  if (turns_ % kLookEvery != 0) return false;
  const Clock::time_point now = Clock::now();
  if (turns_ == kLookEvery) since_ = now;
  waited_s_ = std::chrono::duration<double>(now - since_).count();
  if (waited_s_ * 1e6 > policy_.spin_us) {
    nap(std::clamp(waited_s_ / 8, kShortestNap, kLongestNap), connections);
    turns_ =
        2 * kLookEvery - 1;  // look again right after the next turn; no overflow in a long wait
  }
  return true;
}

}  // namespace coll
