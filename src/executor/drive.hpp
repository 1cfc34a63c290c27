// SPDX-License-Identifier: Apache-2.0
// A caller waits for its run, and drives all of them meanwhile.
#pragma once
#include <atomic>

#include "executor/progress.hpp"
#include "executor/wait_policy.hpp"

namespace coll {

/// How a caller waits.
class Driver {
 public:
  enum class Outcome {
    done,
    idle,     ///< nothing moved for the time given; drive again to go on
    stopped,  ///< the stop flag was raised
    failed,   ///< a connection of the run failed
  };

  Driver(Progress& progress, const WaitPolicy& policy, const std::atomic<bool>* stop)
      : progress_(&progress), policy_(policy), stop_(stop) {}

  /// Polls until `run` is done; returns `idle` after `idle_s` seconds without any progress.
  Outcome drive(const Run& run, double idle_s);
  /// Did the last `drive` make any progress?
  [[nodiscard]] bool moved() const { return moved_; }

 private:
  Progress* progress_;
  WaitPolicy policy_;
  const std::atomic<bool>* stop_;
  bool moved_ = false;
};

}  // namespace coll
