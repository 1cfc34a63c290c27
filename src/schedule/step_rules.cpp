// SPDX-License-Identifier: Apache-2.0
// The rules that one step can break alone.
#include "schedule/step_rules.hpp"

#include <algorithm>
#include <vector>

#include "schedule/cells.hpp"
#include "schedule/print.hpp"
#include "schedule/schedule_fault.hpp"

namespace coll {
namespace {

bool point_to_point(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

bool idle(const Schedule& schedule) {
  return std::ranges::all_of(schedule.lanes, [](const Lane& lane) { return lane.empty(); });
}

/// The rank's schedule as a whole: is it part of the set?
Status check_head(std::span<const Schedule> schedules, Rank rank) {
  const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
  const CollectiveSpec& spec = schedule.spec;
  const CollectiveSpec& first = schedules.front().spec;
  if (schedule.rank != rank) {
    return fault(rank, "has the schedule of rank " + std::to_string(schedule.rank));
  }
  if (spec.ranks != static_cast<Rank>(schedules.size())) {
    return fault(rank, "has a schedule for " + std::to_string(spec.ranks) + " ranks among " +
                           std::to_string(schedules.size()));
  }
  if (has_root(spec.collective) && (spec.root < 0 || spec.root >= spec.ranks)) {
    return fault(rank, "has root " + std::to_string(spec.root) + " of " +
                           std::to_string(spec.ranks) + " ranks");
  }
  if (point_to_point(spec.collective) && point_to_point(first.collective)) {
    if (pair_of(schedules, rank) == kNoRank && !idle(schedule)) {
      return fault(rank, "has steps to " + std::string(name_of(spec.collective)) + ", but rank " +
                             std::to_string(spec.root) + " does not do the opposite with it");
    }
  } else if (spec != first) {
    return fault(rank, "runs another " + std::string(name_of(spec.collective)) + " than rank 0's " +
                           std::string(name_of(first.collective)));
  }
  return {};
}

Status check_chunk_map(std::span<const Schedule> schedules, const Schedule& schedule) {
  const CollectiveSpec& spec = schedule.spec;
  const Rank rank = schedule.rank;
  const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, rank);
  const ChunkMap expected{shape.input, shape.output, schedules.front().chunks.parts};
  if (schedule.chunks != expected || expected.parts == 0) {
    return fault(rank, "has a chunk map of " + std::to_string(schedule.chunks.input_blocks) +
                           " input and " + std::to_string(schedule.chunks.output_blocks) +
                           " output blocks of " + std::to_string(schedule.chunks.parts) +
                           " parts, not " + std::to_string(expected.input_blocks) + ", " +
                           std::to_string(expected.output_blocks) + " of " +
                           std::to_string(expected.parts) + " (at least 1)");
  }
  return {};
}

std::uint64_t chunks_of(const Schedule& schedule, Space space) {
  return space == Space::scratch ? schedule.scratch_chunks : schedule.chunks.chunks(space);
}

/// What is wrong with a step regardless of others; empty if nothing.
std::string wrong_with(const Schedule& schedule, std::size_t lane, const Step& step) {
  const Rank ranks = schedule.spec.ranks;
  for (const Rank peer : {step.source, step.target}) {
    if (peer == kNoRank) continue;
    if (peer < 0 || peer >= ranks) return "names rank " + std::to_string(peer) + ", not a rank";
    if (peer == schedule.rank) return "exchanges a message with itself";
  }
  for (const Operand& operand : {step.from, step.with, step.into}) {
    if (!operand.present()) continue;
    const std::uint64_t chunks = chunks_of(schedule, operand.space);
    if (std::uint64_t{operand.chunk} + step.count > chunks) {
      return "names " + print(operand, step.count) + ", but the rank has " +
             std::to_string(chunks) + " such chunks";
    }
  }
  if (step.count == 0) {
    if (step.from.present() || step.with.present() || step.into.present()) {
      return "has operands, but no chunks (count 0)";
    }
    if (!step.receives() && !step.sends()) return "does nothing";
  } else {
    if (step.receives() && step.from.present()) return "has two sources: a message and a chunk";
    if (!step.receives() && !step.from.present()) return "has no source";
    if (!step.into.present() && !step.sends()) return "has no destination";
  }
  if (step.into.space == Space::input) return "writes the input, which belongs to the caller";
  if (step.finish && !step.with.present()) return "finishes a reduction, but combines nothing";
  if (step.swapped && !step.with.present()) return "swaps its operands, but has only one";

  for (const bool aliased : {false, true}) {
    const Cells cells(schedule, aliased);
    for (const Operand& read : {step.from, step.with}) {
      if (!read.present() || !step.into.present()) continue;
      const std::uint64_t a = cells.at(read);
      const std::uint64_t b = cells.at(step.into);
      if (a != b && a < b + step.count && b < a + step.count) {
        return std::string(aliased ? "in place " : "") + "writes over a part of " +
               print(read, step.count) + " while it reads it";
      }
    }
  }
  if (step.wait_lane >= 0) {
    const auto wait_lane = static_cast<std::size_t>(step.wait_lane);
    if (wait_lane == lane) return "waits for its own lane";
    if (wait_lane >= schedule.lanes.size() || step.wait_step < 0 ||
        static_cast<std::size_t>(step.wait_step) >= schedule.lanes[wait_lane].size()) {
      return "waits for a step that does not exist";
    }
  }
  return {};
}

/// Scratch belongs to one lane: another may be a pass ahead or behind.
Status check_scratch_owners(std::span<const Schedule> schedules, const Schedule& schedule) {
  constexpr std::size_t kNobody = SIZE_MAX;
  std::vector<std::size_t> owner(schedule.scratch_chunks, kNobody);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (std::size_t i = 0; i < schedule.lanes[lane].size(); ++i) {
      const Step step = schedule.lanes[lane][i];
      for (const Operand& operand : {step.from, step.with, step.into}) {
        if (operand.space != Space::scratch) continue;
        for (std::uint32_t chunk = operand.chunk; chunk < operand.chunk + step.count; ++chunk) {
          if (owner[chunk] == kNobody) owner[chunk] = lane;
          if (owner[chunk] != lane) {
            return fault(schedules, {schedule.rank, lane, i},
                         "uses scratch " + std::to_string(chunk) + " of lane " +
                             std::to_string(owner[chunk]) + "; scratch is private to a lane");
          }
        }
      }
    }
  }
  return {};
}

}  // namespace

Rank pair_of(std::span<const Schedule> schedules, Rank rank) {
  const CollectiveSpec& own = schedules[static_cast<std::size_t>(rank)].spec;
  if (!point_to_point(own.collective) || own.root == rank) return kNoRank;
  if (own.root < 0 || own.root >= static_cast<Rank>(schedules.size())) return kNoRank;
  const CollectiveSpec& other = schedules[static_cast<std::size_t>(own.root)].spec;
  const bool opposite = point_to_point(other.collective) && other.collective != own.collective;
  return opposite && other.root == rank ? own.root : kNoRank;
}

Status check_steps(std::span<const Schedule> schedules) {
  for (const Schedule& schedule : schedules) {
    COLL_TRY(check_chunk_map(schedules, schedule));
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      std::size_t i = 0;
      for (const Step& step : schedule.lanes[lane]) {
        const std::string wrong = wrong_with(schedule, lane, step);
        if (!wrong.empty()) return fault(schedules, {schedule.rank, lane, i}, wrong);
        ++i;
      }
    }
    COLL_TRY(check_scratch_owners(schedules, schedule));
  }
  return {};
}

Status check_rules(std::span<const Schedule> schedules) {
  if (schedules.empty()) return failed(Code::internal, "there are no schedules to verify");
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    COLL_TRY(check_head(schedules, static_cast<Rank>(rank)));
  }
  return check_steps(schedules);
}

}  // namespace coll
