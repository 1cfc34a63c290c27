// SPDX-License-Identifier: Apache-2.0
// The verifier's failures, which name the place where a schedule is wrong.
#pragma once
#include <span>
#include <string>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// The place of a step in a set of schedules.
struct StepPlace {
  Rank rank = 0;
  std::size_t lane = 0;
  std::size_t step = 0;
};

/// "rank 5 lane 0 step 3 (receive_reduce, from rank 4, with input 1, into output 1)".
std::string print(std::span<const Schedule> schedules, const StepPlace& place);

/// A failure at a step; `what` continues the sentence after the step's name.
Status fault(std::span<const Schedule> schedules, const StepPlace& place, const std::string& what,
             const char* file = __builtin_FILE(), int line = __builtin_LINE());
/// A failure of a rank without a step.
Status fault(Rank rank, const std::string& what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());

}  // namespace coll
