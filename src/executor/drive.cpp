// SPDX-License-Identifier: Apache-2.0
// A caller waits for its run, and drives all of them meanwhile.
#include "executor/drive.hpp"

#include <algorithm>

namespace coll {

Driver::Outcome Driver::drive(const Run& run, double idle_s) {
  Waiter waiter(policy_);
  moved_ = false;
  while (true) {
    const bool moved = progress_->poll();
    if (run.done()) return Outcome::done;
    if (moved) {
      moved_ = true;
      waiter.reset();
      continue;
    }
    if (!waiter.turn(run.program->connections)) continue;
    if (failed_connection(run) != nullptr) return Outcome::failed;
    if (stop_->load(std::memory_order_relaxed)) return Outcome::stopped;
    if (waiter.waited_s() > idle_s) return Outcome::idle;
  }
}

const Connection* failed_connection(const Run& run) {
  const auto& all = run.program->connections;
  const auto failed =
      std::ranges::find_if(all, [](const Connection* one) { return !one->status().ok(); });
  return failed == all.end() ? nullptr : *failed;
}

}  // namespace coll
