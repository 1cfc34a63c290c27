// SPDX-License-Identifier: Apache-2.0
// What a rank does while it waits: spin, yield, nap.
#pragma once
#include <chrono>
#include <cstdint>
#include <span>

namespace coll {

class Connection;

/// How to wait. Spinning is fastest while every rank has a core; ranks that share one must give it
/// away at once, or the one they wait for cannot run; a long wait should cost nobody a core.
struct WaitPolicy {
  double spin_us = 1000;  ///< then naps begin
  bool crowded = false;   ///< more ranks than cores: yield after a short look
};

/// One wait, from the last progress on. `turn()` is called for each fruitless round.
class Waiter {
 public:
  explicit Waiter(const WaitPolicy& policy) : policy_(policy) {}

  /// Progress was made: the next wait starts anew.
  void reset() { turns_ = 0; }

  /// Spends a moment. True every so often: time to look at flags, failures and the clock
  /// (`waited_s`). A nap is at most an eighth of the time waited so far, so it never costs more
  /// than that, and at most a millisecond; data on the connections' sockets ends it.
  bool turn(std::span<Connection* const> connections);

  /// Seconds since the first slow look of this wait.
  [[nodiscard]] double waited_s() const { return waited_s_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kLookEvery = 64;  ///< turns between looks at the clock
  /// Turns before a waiting rank begins to offer its core to others: hardly any where ranks share
  /// cores, since a pause takes a tenth of a change of processes, and who has to wait there mostly
  /// waits for one who needs this core; else long enough for a slice, and then only for whoever
  /// else is on this machine.
  static constexpr std::uint32_t kCrowdedSpins = 2;
  static constexpr std::uint32_t kSpins = 512;

  WaitPolicy policy_;
  std::uint32_t turns_ = 0;
  Clock::time_point since_;
  double waited_s_ = 0;
};

}  // namespace coll
