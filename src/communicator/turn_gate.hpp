// SPDX-License-Identifier: Apache-2.0
// Operations of one communicator run one at a time.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace coll {

/// Hands out turns in the order they were asked for, so that blocking calls and streams that share
/// a communicator run its operations in the order the user issued them. Uncontended: two atomic
/// operations. May be destroyed once `drain` has returned and no more turns are taken.
class TurnGate {
 public:
  std::uint64_t take() { return taken_.fetch_add(1, std::memory_order_relaxed); }
  /// A turn, if all those handed out so far are over.
  std::optional<std::uint64_t> take_if_idle() {
    std::uint64_t next = passed_.load(std::memory_order_acquire) / 2;
    if (!taken_.compare_exchange_strong(next, next + 1, std::memory_order_relaxed)) return {};
    return next;
  }
  void wait(std::uint64_t turn) {
    if (passed_.load(std::memory_order_acquire) / 2 != turn) [[unlikely]]
      sleep_until(turn);
  }
  void pass() {
    std::uint64_t now = passed_.load(std::memory_order_relaxed);
    // Nobody sleeps: who drains may go on, and this gate is not touched again.
    if (now % 2 == 0 && passed_.compare_exchange_strong(now, now + 2, std::memory_order_release,
                                                        std::memory_order_relaxed)) [[likely]]
      return;
    const std::lock_guard lock(mutex_);  // who drains goes on only when this is unlocked
    passed_.fetch_add(2, std::memory_order_release);
    changed_.notify_all();
  }
  /// Waits for every turn handed out so far.
  void drain() { sleep_until(taken_.load(std::memory_order_relaxed)); }

 private:
  void sleep_until(std::uint64_t turn) {
    std::unique_lock lock(mutex_);
    ++sleepers_;
    passed_.fetch_or(1, std::memory_order_relaxed);
    changed_.wait(lock, [&] { return passed_.load(std::memory_order_acquire) / 2 == turn; });
    if (--sleepers_ == 0) passed_.fetch_and(~std::uint64_t{1}, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> passed_{0};  ///< twice the turns that are over, odd: somebody sleeps
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned sleepers_ = 0;  ///< under the mutex
};

}  // namespace coll
