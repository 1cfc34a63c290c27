// SPDX-License-Identifier: Apache-2.0
// The seat: the right of one thread at a time to drive an engine.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "sys/clock.hpp"

namespace coll {

/// Whoever has the seat may touch what it guards. Uncontended, taking it is one atomic operation
/// and giving it up one plain store: a second atomic operation would wait for the call's messages
/// to leave the core. Taking acquires, giving up releases. May be destroyed by who has it, once
/// nobody else waits or comes.
class Seat {
 public:
  Seat() = default;
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat() { const std::lock_guard lock(mutex_); }  // who gave it up may still be waking others

  [[nodiscard]] bool try_take() {
    return !taken_.load(std::memory_order_relaxed) &&
           !taken_.exchange(true, std::memory_order_acquire);
  }
  void give_up() {
    if (!wanted()) [[likely]] {
      // Who takes it next may destroy it: it is not touched again.
      taken_.store(false, std::memory_order_release);
      return;
    }
    const std::lock_guard lock(mutex_);
    taken_.store(false, std::memory_order_release);
    changed_.notify_all();
  }
  /// Does a thread sleep until the seat is free? Then who merely helps gives it up.
  [[nodiscard]] bool wanted() const { return sleepers_.load(std::memory_order_relaxed) != 0; }

  /// Sleeps until the seat is free, or `done()`, which another thread makes true before `wake`, or
  /// `until`.
  template <class Done>
  void sleep(Done done, Deadline until = Deadline::max()) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_acq_rel);
    const auto over = [&] { return done() || !taken_.load(std::memory_order_acquire); };
    // Who gave the seat up may have looked for sleepers before this one came, and wakes nobody.
    for (auto pause = kFirstPause; !over() && Clock::now() < until; pause *= 2) {
      changed_.wait_until(lock, std::min<Deadline>(until, Clock::now() + pause), over);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Has sleepers look again whether they are done. The caller has the seat.
  void wake() {
    if (sleepers_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::milliseconds kFirstPause{1};

  std::atomic<bool> taken_{false};
  std::atomic<std::uint32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace coll
