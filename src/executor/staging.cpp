// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: messages that several peers get are written once.
#include "executor/staging.hpp"

#include <algorithm>

namespace coll {
namespace {

using Stage = BoundStep::Stage;

/// Does `next` send what `step` has just sent, to another peer, and nothing else?
bool repeats(const Step& step, const Step& next) {
  const bool plain = next.sends() && !next.receives() && !next.with.present() &&
                     !next.into.present() && next.wait_lane < 0;
  const bool local = !step.receives() && !step.with.present();
  const bool same = (step.into.present() && next.from == step.into) ||
                    (local && step.from.present() && next.from == step.from);
  return plain && same && step.sends() && step.target != next.target && step.count > 0 &&
         next.count == step.count;
}

std::vector<Stage> stages_of(const Lane& lane) {
  std::vector<Stage> stages(lane.size(), Stage::none);
  std::vector<Rank> targets;
  for (std::size_t first = 0; first < lane.size();) {
    const Step step = lane[first];
    std::size_t end = first + 1;
    std::vector<Rank> run{step.target};
    for (; end < lane.size() && repeats(step, lane[end]); ++end) run.push_back(lane[end].target);
    if (run.size() > 1) {
      std::sort(run.begin(), run.end());
      if (targets.empty()) targets = run;
      if (run != targets) return std::vector<Stage>(lane.size(), Stage::none);
      stages[first] = Stage::first;
      std::fill(stages.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                stages.begin() + static_cast<std::ptrdiff_t>(end), Stage::again);
    }
    first = end;
  }
  return stages;
}

/// To how many peers the lane sends each message that it stages, 0 if it stages none.
std::size_t readers_of(const Program::LaneState& lane) {
  const auto first = std::find_if(lane.begin, lane.end,
                                  [](const BoundStep& step) { return step.stage == Stage::first; });
  if (first == lane.end) return 0;
  const auto end = std::find_if(first + 1, lane.end,
                                [](const BoundStep& step) { return step.stage != Stage::again; });
  return static_cast<std::size_t>(end - first);
}

}  // namespace

std::vector<std::vector<Stage>> find_stages(const Schedule& schedule) {
  std::vector<std::vector<Stage>> all;
  for (const Lane& lane : schedule.lanes) all.push_back(stages_of(lane));
  return all;
}

void give_places(Program& program, const SharedMemorySource& memory) {
  const auto lanes = static_cast<std::size_t>(
      std::count_if(program.lanes.begin(), program.lanes.end(),
                    [](const Program::LaneState& lane) { return readers_of(lane) > 0; }));
  if (lanes == 0) return;
  const std::size_t stride = (std::size_t{program.shape.slice_bytes} + 63) / 64 * 64;
  const std::uint32_t count = program.shape.credits + 1;
  program.stage = memory(lanes * count * stride);
  std::byte* begin = program.stage.get();
  if (begin == nullptr) return;
  for (Program::LaneState& lane : program.lanes) {
    const std::size_t readers = readers_of(lane);
    if (readers == 0) continue;
    lane.stage = {.begin = begin,
                  .stride = stride,
                  .count = count,
                  .least = program.shape.least_staged / readers};
    begin += count * stride;
  }
}

Program::~Program() {
  if (!stage) return;
  const bool read = std::all_of(connections.begin(), connections.end(),
                                [](Connection* connection) { return connection->flush(); });
  // Peers who come late to what they were sent still read it; nobody may get this memory again.
  if (!read) static_cast<void>(stage.release());
}

}  // namespace coll
