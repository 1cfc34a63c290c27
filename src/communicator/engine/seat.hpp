// SPDX-License-Identifier: Apache-2.0
// The seat: the right of one thread at a time to drive an engine.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "sys/clock.hpp"

namespace coll {

/// Whoever has the seat may touch what it guards. Uncontended, taking it and giving it up are one
/// atomic operation each. Taking acquires, giving up releases. May be destroyed by who has it, once
/// nobody else waits or comes.
class Seat {
 public:
  [[nodiscard]] bool try_take() {
    std::uint32_t now = 0;
    while (!state_.compare_exchange_weak(now, now | kTaken, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      if ((now & kTaken) != 0) return false;
    }
    return true;
  }
  void give_up() {
    std::uint32_t alone = kTaken;
    // Nobody sleeps: who takes it next may destroy it, and it is not touched again.
    if (state_.compare_exchange_strong(alone, 0, std::memory_order_release,
                                       std::memory_order_relaxed)) [[likely]] {
      return;
    }
    const std::lock_guard lock(mutex_);  // who sleeps goes on only when this is unlocked
    state_.fetch_sub(kTaken, std::memory_order_release);
    changed_.notify_all();
  }
  /// Does a thread sleep until the seat is free? Then who merely helps gives it up.
  [[nodiscard]] bool wanted() const { return state_.load(std::memory_order_relaxed) > kTaken; }

  /// Sleeps until the seat is free, or `done()`, which another thread makes true before `wake`, or
  /// `until`.
  template <class Done>
  void sleep(Done done, Deadline until = Deadline::max()) {
    std::unique_lock lock(mutex_);
    state_.fetch_add(kSleeper, std::memory_order_acq_rel);
    const auto over = [&] {
      return done() || (state_.load(std::memory_order_acquire) & kTaken) == 0;
    };
    if (until == Deadline::max()) {
      changed_.wait(lock, over);
    } else {
      changed_.wait_until(lock, until, over);
    }
    state_.fetch_sub(kSleeper, std::memory_order_relaxed);
  }
  /// Has sleepers look again whether they are done. The caller has the seat.
  void wake() {
    if (state_.fetch_add(0, std::memory_order_acq_rel) == kTaken) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  static constexpr std::uint32_t kTaken = 1;
  static constexpr std::uint32_t kSleeper = 2;

  std::atomic<std::uint32_t> state_{0};  ///< kTaken, and kSleeper for each that sleeps
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace coll
