// SPDX-License-Identifier: Apache-2.0
// What a communicator's calls have moved.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>

#include "executor/program.hpp"

namespace coll {

/// A call that repeats, and how often it has succeeded: all that the call path counts.
class RepeatCount {
 public:
  void raise() {
    times_.store(times_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  friend class CallCounts;
  std::atomic<std::uint64_t> times_{0};
  std::atomic<std::uint64_t> sent_{0}, received_{0};  ///< each time
};

/// Sums over calls that have succeeded. One thread at a time counts, any thread reads: a sequence
/// lock, whose reader begins again if a sum has changed meanwhile.
class CallCounts {
 public:
  struct Sums {
    std::uint64_t calls = 0;
    Traffic traffic;
  };

  /// A call that nothing else counts.
  void add(const Traffic& moved) {
    change([&] { add(1, moved.sent, moved.received); });
  }
  /// From now on `repeat` counts calls that move `moved` each.
  void begin(RepeatCount& repeat, const Traffic& moved) {
    change([&] {
      add(repeat.times_.load(std::memory_order_relaxed),
          repeat.sent_.load(std::memory_order_relaxed),
          repeat.received_.load(std::memory_order_relaxed));
      repeat.times_.store(0, std::memory_order_release);
      repeat.sent_.store(moved.sent, std::memory_order_release);
      repeat.received_.store(moved.received, std::memory_order_release);
    });
  }
  /// `all()` has an element with a `repeats` for each call that repeats.
  template <class All>
  [[nodiscard]] Sums read(All all) const {
    while (true) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      Sums sums{calls_.load(std::memory_order_acquire),
                {sent_.load(std::memory_order_acquire), received_.load(std::memory_order_acquire)}};
      for (const auto& each : all()) {
        const RepeatCount& repeat = each.repeats;
        const std::uint64_t times = repeat.times_.load(std::memory_order_acquire);
        sums.calls += times;
        sums.traffic.sent += times * repeat.sent_.load(std::memory_order_acquire);
        sums.traffic.received += times * repeat.received_.load(std::memory_order_acquire);
      }
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) return sums;
      std::this_thread::yield();
    }
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void raise(Count& count, std::uint64_t by) {
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_release);
  }
  void add(std::uint64_t times, std::uint64_t sent, std::uint64_t received) {
    raise(calls_, times);
    raise(sent_, times * sent);
    raise(received_, times * received);
  }
  template <class Change>
  void change(Change make) {
    raise(version_, 1);
    make();
    raise(version_, 1);
  }

  Count version_{0};  ///< odd during a change
  Count calls_{0}, sent_{0}, received_{0};
};

}  // namespace coll
