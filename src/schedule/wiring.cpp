// SPDX-License-Identifier: Apache-2.0
// Finds which FIFO each step reads and writes, in linear time.
#include "schedule/wiring.hpp"

#include <algorithm>

#include "schedule/schedule_fault.hpp"

namespace coll {
namespace {

struct Traffic {
  std::uint32_t sent = 0, received = 0;
};

std::string route(const Wiring& wiring, Rank from, Rank to, std::uint32_t lane_number) {
  return "from rank " + std::to_string(from) + " to rank " + std::to_string(to) + " on lane " +
         std::to_string(wiring.lanes[lane_number].lane);
}

}  // namespace

Result<Wiring> wire(std::span<const Schedule> schedules) {
  Wiring wiring;
  std::vector<std::uint32_t> first_lane;
  std::size_t steps = 0;
  for (const Schedule& schedule : schedules) {
    first_lane.push_back(static_cast<std::uint32_t>(wiring.lanes.size()));
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      wiring.lanes.push_back(
          {schedule.rank, static_cast<std::uint32_t>(lane), steps, first_lane.back()});
      steps += schedule.lanes[lane].size();
    }
  }
  wiring.steps.resize(steps);
  const auto steps_of = [&](std::uint32_t lane) -> const Lane& {
    const Wiring::LaneEnd& end = wiring.lanes[lane];
    return schedules[static_cast<std::size_t>(end.rank)].lanes[end.lane];
  };

  // FIFOs by their writers; fifo_to[r] is the current lane's to rank r, if at least `from_here`.
  std::vector<std::uint32_t> fifo_to(schedules.size(), Wiring::kNone);
  std::vector<Traffic> traffic;
  for (std::uint32_t lane = 0; lane < wiring.lanes.size(); ++lane) {
    const Wiring::LaneEnd& end = wiring.lanes[lane];
    const auto from_here = static_cast<std::uint32_t>(wiring.fifos.size());
    const Lane& list = steps_of(lane);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].sends()) continue;
      const auto target = static_cast<std::size_t>(list[i].target);
      if (end.lane >= schedules[target].lanes.size()) {
        return fault(schedules, {end.rank, end.lane, i},
                     "sends to a lane that rank " + std::to_string(target) + " does not have");
      }
      if (fifo_to[target] == Wiring::kNone || fifo_to[target] < from_here) {
        fifo_to[target] = static_cast<std::uint32_t>(wiring.fifos.size());
        wiring.fifos.push_back({lane, first_lane[target] + end.lane});
        traffic.emplace_back();
      }
      wiring.steps[end.first_step + i].out = fifo_to[target];
      ++traffic[fifo_to[target]].sent;
    }
  }

  // The same FIFOs by their readers.
  std::vector<std::uint32_t> begin(wiring.lanes.size() + 1, 0);
  for (const Wiring::Fifo& fifo : wiring.fifos) ++begin[fifo.reader + 1];
  for (std::size_t lane = 0; lane < wiring.lanes.size(); ++lane) begin[lane + 1] += begin[lane];
  std::vector<std::uint32_t> by_reader(wiring.fifos.size());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t fifo = 0; fifo < wiring.fifos.size(); ++fifo) {
    by_reader[next[wiring.fifos[fifo].reader]++] = fifo;
  }
  std::vector<std::uint32_t> fifo_from(schedules.size(), Wiring::kNone);
  for (std::uint32_t lane = 0; lane < wiring.lanes.size(); ++lane) {
    const auto source_of = [&](std::uint32_t fifo) {
      return static_cast<std::size_t>(wiring.lanes[wiring.fifos[fifo].writer].rank);
    };
    const std::span mine(by_reader.data() + begin[lane], begin[lane + 1] - begin[lane]);
    for (const std::uint32_t fifo : mine) fifo_from[source_of(fifo)] = fifo;
    const Wiring::LaneEnd& end = wiring.lanes[lane];
    const Lane& list = steps_of(lane);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].receives()) continue;
      const std::uint32_t fifo = fifo_from[static_cast<std::size_t>(list[i].source)];
      if (fifo == Wiring::kNone) {
        return fault(schedules, {end.rank, end.lane, i},
                     "receives, but rank " + std::to_string(list[i].source) +
                         " sends it nothing on this lane");
      }
      wiring.steps[end.first_step + i].in = fifo;
      ++traffic[fifo].received;
    }
    for (const std::uint32_t fifo : mine) fifo_from[source_of(fifo)] = Wiring::kNone;
  }

  for (std::size_t fifo = 0; fifo < wiring.fifos.size(); ++fifo) {
    const auto [sent, received] = traffic[fifo];
    if (sent == received) continue;
    const auto [writer, reader] = wiring.fifos[fifo];
    const Rank from = wiring.lanes[writer].rank;
    const Rank to = wiring.lanes[reader].rank;
    return fault(from, "sends " + std::to_string(sent) + " messages and rank " +
                           std::to_string(to) + " receives " + std::to_string(received) + " (" +
                           route(wiring, from, to, writer) + ")");
  }
  return wiring;
}

}  // namespace coll
