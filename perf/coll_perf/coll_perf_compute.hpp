// SPDX-License-Identifier: Apache-2.0
// What a caller does while its call is under way, and the clocks.
#pragma once
#include <cstdint>

#include "coll_perf/coll_perf_options.hpp"

namespace perf {

double now();          ///< seconds, of a clock that only goes forward
double process_cpu();  ///< seconds of processor time, of all threads and the kernel on their behalf

/// `turns` steps of a linear congruential generator (the one of MMIX: Knuth, TAOCP 2, 3.3.4). Each
/// step needs the one before, and none needs memory.
std::uint64_t grind(std::uint64_t state, std::uint64_t turns);

class Computation {
 public:
  /// Finds out how fast this core is.
  explicit Computation(Compute kind);
  /// From now on a run takes about `seconds` of a core (work) or of the clock (sleep).
  void last(double seconds) { seconds_ = seconds; }
  void run();

 private:
  Compute kind_;
  double turns_per_s_ = 0;
  double seconds_ = 0;
  std::uint64_t state_ = 1;
};

}  // namespace perf
