// SPDX-License-Identifier: Apache-2.0
// What a communicator's calls have moved.
#pragma once
#include <atomic>
#include <cstdint>

#include "executor/program.hpp"

namespace coll {

/// Counts calls that have succeeded. One thread at a time adds, any thread reads: plain stores on
/// the call path.
class CallCounts {
 public:
  void add(const Traffic& moved) {
    raise(calls_, 1);
    raise(sent_, moved.sent);
    raise(received_, moved.received);
  }
  [[nodiscard]] std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] Traffic traffic() const {
    return {sent_.load(std::memory_order_relaxed), received_.load(std::memory_order_relaxed)};
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void raise(Count& count, std::uint64_t by) {
    count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  Count calls_{0}, sent_{0}, received_{0};
};

}  // namespace coll
