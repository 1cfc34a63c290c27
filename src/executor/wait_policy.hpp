// SPDX-License-Identifier: Apache-2.0
// What a thread does while it waits: spin, yield, nap.
#pragma once
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

namespace coll {

class Connection;

/// How to wait. Spinning is fastest while every rank has a core. Ranks that share a core must give
/// it away at once, or the rank that they wait for cannot run. A long wait should cost no core.
struct WaitPolicy {
  double spin_us = 1000;  ///< then naps begin
  bool crowded = false;   ///< more ranks than cores: yield after a short look
};

/// The sockets that end a nap; of more than it holds, the first.
class WaitSockets {
 public:
  void add(int fd) {
    if (fd >= 0 && count_ < sockets_.size()) sockets_[count_++] = {fd, POLLIN, 0};
  }
  void add(std::span<Connection* const> connections);
  [[nodiscard]] std::span<pollfd> all() { return {sockets_.data(), count_}; }

 private:
  std::array<pollfd, 64> sockets_;
  std::size_t count_ = 0;
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
  /// Sleeps for an eighth of the time waited so far, so that it never costs more than that, and for
  /// a millisecond at most; data on a socket ends it.
  void nap(WaitSockets& sockets);

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
