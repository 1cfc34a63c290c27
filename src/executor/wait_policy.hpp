// SPDX-License-Identifier: Apache-2.0
// What a thread does while it waits: spin, yield, nap.
#pragma once
#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coll {

class ProgressSource;

/// How to wait. Spinning is fastest while every rank has a core. Ranks that share a core must give
/// it away at once, or the rank that they wait for cannot run. A long wait should cost no core.
struct WaitPolicy {
  double spin_us = 1000;      ///< then naps begin
  double ranks_per_core = 1;  ///< more than 1: yield after a short look
};

/// What ends a nap early. Made once for many naps.
class NapEnds {
 public:
  NapEnds() { polled_.reserve(kUsual); }  // a nap in a call does not allocate
  void clear() {
    polled_.clear();
    news_ = false;
  }
  /// Data there.
  void add(int fd) noexcept;
  /// News of its connections. Several runs may add it.
  void add(ProgressSource& source) noexcept;

 private:
  friend class Waiter;
  static constexpr std::size_t kUsual = 8;
  std::vector<pollfd> polled_;
  bool news_ = false;  ///< already there
};

/// One wait, from the last progress on. `turn()` is called for each fruitless round.
class Waiter {
 public:
  explicit Waiter(const WaitPolicy& policy) : policy_(policy) {}

  /// Progress was made: the next wait starts anew.
  void reset() { turns_ = 0; }
  /// Spins or yields. True every so often: then look at flags and clocks, and `nap`.
  bool turn();
  /// Is it time to nap?
  [[nodiscard]] bool naps() const { return waited_s_ * 1e6 > policy_.spin_us; }
  /// Sleeps for an eighth of the time waited so far, so that it never costs more than that; `ends`
  /// may end it. It sleeps for a millisecond at most, or longer where so many ranks share a core
  /// that their looks would take much of it.
  void nap(NapEnds& ends);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kLookEvery = 64;  ///< turns between looks at the clock
  /// Turns before a waiting rank begins to offer its core to others. Where ranks share cores that
  /// is at once: a pause takes a tenth of a change of processes, and the awaited rank mostly needs
  /// this core. Elsewhere it is late enough for a slice to arrive, and helps whoever else is on
  /// this machine.
  static constexpr std::uint32_t kCrowdedSpins = 2;
  static constexpr std::uint32_t kSpins = 512;

  WaitPolicy policy_;
  std::uint32_t turns_ = 0;
  Clock::time_point since_;
  double waited_s_ = 0;
};

}  // namespace coll
