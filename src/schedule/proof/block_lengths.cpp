// SPDX-License-Identifier: Apache-2.0
// Compares what both ends of each message name.
#include "schedule/proof/block_lengths.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/schedule_fault.hpp"

namespace coll {
namespace {

/// Does it say how long its chunks are? Scratch does where it is of one block only.
bool has_length(const CollectiveSpec& spec, const Operand& operand) {
  return operand.present() &&
         (operand.space != Space::scratch || spec.collective == Collective::reduce_scatter);
}

/// The chunks of one message, as an end of it names them.
struct Named {
  StepPlace place;
  std::vector<BlockName> blocks;
  std::uint32_t part = 0, count = 0;
};

/// What an operand names that has a length.
std::vector<BlockName> blocks_of(const Schedule& schedule, const Operand& operand,
                                 std::uint32_t count) {
  const std::uint32_t parts = schedule.chunks.parts;
  if (operand.space == Space::scratch) return {{.to = schedule.rank}};
  std::vector<BlockName> blocks;
  for (std::uint32_t at = operand.chunk; at < operand.chunk + count; at += parts - at % parts) {
    blocks.push_back(block_name(schedule.spec, schedule.rank, operand.space, at / parts));
  }
  return blocks;
}

using Direction = std::tuple<Rank, Rank, std::size_t>;  ///< from, to, lane
using Messages = std::map<Direction, std::vector<Named>>;

struct Ends {
  Messages sent, received;
};

Status read_step(std::span<const Schedule> schedules, const StepPlace& place, const Step& step,
                 Ends& ends) {
  const Schedule& schedule = schedules[static_cast<std::size_t>(place.rank)];
  const std::uint32_t parts = schedule.chunks.parts;
  std::optional<Named> named;
  for (const Operand& operand : {step.from, step.with, step.into}) {
    if (step.count == 0 || !has_length(schedule.spec, operand)) continue;
    if (operand.space == Space::scratch && operand.chunk % parts + step.count > parts) {
      return fault(schedules, place, "names scratch of more than one block");
    }
    Named here{place, blocks_of(schedule, operand, step.count), operand.chunk % parts, step.count};
    if (named && named->blocks != here.blocks) {
      return fault(schedules, place, "combines or copies blocks that may differ in length");
    }
    named = std::move(here);
  }
  if (!named && step.count != 0) {
    return fault(schedules, place, "names no block of the user's buffers");
  }
  if (!named) named = Named{place, {}, 0, 0};
  if (step.receives()) ends.received[{step.source, place.rank, place.lane}].push_back(*named);
  if (step.sends()) ends.sent[{place.rank, step.target, place.lane}].push_back(*named);
  return {};
}

}  // namespace

BlockName block_name(const CollectiveSpec& spec, Rank rank, Space space, std::uint32_t block) {
  const auto other = static_cast<Rank>(block);
  const bool input = space == Space::input;
  switch (spec.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {.from = input ? rank : other};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {.to = input ? other : rank};
    case Collective::all_to_all:
      return input ? BlockName{rank, other} : BlockName{other, rank};
    default:
      return {};
  }
}

Status verify_block_lengths(std::span<const Schedule> schedules) {
  Ends ends;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    for (std::size_t lane = 0; lane < schedules[rank].lanes.size(); ++lane) {
      std::size_t index = 0;
      for (const Step& step : schedules[rank].lanes[lane]) {
        COLL_TRY(read_step(schedules, {static_cast<Rank>(rank), lane, index++}, step, ends));
      }
    }
  }
  for (const auto& [direction, sent] : ends.sent) {
    const std::vector<Named>& received = ends.received[direction];
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const bool meets = i < received.size() && sent[i].blocks == received[i].blocks &&
                         sent[i].part == received[i].part && sent[i].count == received[i].count;
      if (!meets) {
        return fault(schedules, sent[i].place, "sends blocks that its receiver does not name");
      }
    }
  }
  return {};
}

}  // namespace coll
