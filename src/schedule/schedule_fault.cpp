// SPDX-License-Identifier: Apache-2.0
// The wording of what is wrong with a schedule.
#include "schedule/schedule_fault.hpp"

#include "schedule/print.hpp"

namespace coll {

std::string print(std::span<const Schedule> schedules, const StepPlace& place) {
  const Step step = schedules[static_cast<std::size_t>(place.rank)].lanes[place.lane][place.step];
  const std::string details = print(step);
  return "rank " + std::to_string(place.rank) + " lane " + std::to_string(place.lane) + " step " +
         std::to_string(place.step) + " (" + std::string(kind_of(step)) +
         (details.empty() ? "" : ", ") + details + ")";
}

Status fault(std::span<const Schedule> schedules, const StepPlace& place, const std::string& what,
             const char* file, int line) {
  return failed(Code::internal, print(schedules, place) + " " + what, {}, 0, file, line)
      .at_rank(place.rank);
}

Status fault(Rank rank, const std::string& what, const char* file, int line) {
  return failed(Code::internal, "rank " + std::to_string(rank) + " " + what, {}, 0, file, line)
      .at_rank(rank);
}

}  // namespace coll
