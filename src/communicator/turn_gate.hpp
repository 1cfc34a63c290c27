// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: operations of one communicator run one at a
// time.
#pragma once
#include <atomic>
#include <cstdint>

namespace coll {

/// Hands out turns in the order they were asked for, so that blocking calls and streams that share
/// a communicator run its operations in the order the user issued them. Uncontended: two atomic
/// additions.
class TurnGate {
 public:
  std::uint64_t take() { return taken_.fetch_add(1, std::memory_order_relaxed); }
  void wait(std::uint64_t turn) const {
    if (passed_.load(std::memory_order_acquire) == turn) [[likely]]
      return;
    for (std::uint64_t now = passed_.load(std::memory_order_acquire); now != turn;
         now = passed_.load(std::memory_order_acquire)) {
      passed_.wait(now, std::memory_order_acquire);
    }
  }
  void pass() {
    passed_.fetch_add(1, std::memory_order_release);
    passed_.notify_all();
  }
  /// Waits for every turn handed out so far.
  void drain() const { wait(taken_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> passed_{0};
};

}  // namespace coll
