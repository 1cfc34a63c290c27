// SPDX-License-Identifier: Apache-2.0
// What optimizers do on threads of their own, for a trace.
#pragma once
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace training {

/// Of updates that are delayed by a step, what is taken after a step is that of the step before, or
/// of both. Any thread notes in it what it has done; the training thread takes that out, at least
/// after each step, so that it does not grow.
class WorkLog {
 public:
  using Clock = std::chrono::steady_clock;
  /// Reads and writes move states between a file and host memory.
  enum class Kind { read, adam, write };
  struct Span {
    Kind kind;
    std::size_t bytes;  ///< of the states that were moved or updated
    Clock::time_point begin, end;
  };

  /// When work begins that will be noted in `log`, if there is one.
  static Clock::time_point begin(const WorkLog* log) {
    return log != nullptr ? Clock::now() : Clock::time_point();
  }
  /// Work that ends now; nothing if `log` is null.
  static void add(WorkLog* log, Kind kind, std::size_t bytes, Clock::time_point begin) {
    if (log == nullptr) return;
    const auto end = Clock::now();
    const std::lock_guard lock(log->mutex_);
    log->spans_.push_back({kind, bytes, begin, end});
  }
  /// All that was noted since the last call. What finish() of an optimizer has waited for is in it.
  std::vector<Span> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace training
