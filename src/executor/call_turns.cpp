// SPDX-License-Identifier: Apache-2.0
// How runs share connections: they take turns, and each waits for its own messages only.
#include "executor/call_turns.hpp"

#include <algorithm>

namespace coll {
namespace {

/// Bytes that the lane sent over this connection may still be in this process. To be called before
/// another run sends there.
void note_sent(const Run::Cursor& lane, std::size_t connection) {
  Connection& to = *lane.lane->connections[connection];
  if (to.progress_source() != nullptr) lane.marks[connection] = to.mark();
}
/// The same for all connections that it sends over. (On the others, other runs may have sent.)
void note_sent(const Run::Cursor& lane) {
  for (std::size_t i = 0; i < lane.lane->connections.size(); ++i) {
    if (lane.lane->turns[LaneTurns::sending(i)] != nullptr) note_sent(lane, i);
  }
}

/// Has the lane its turn, or does it not need one?
bool has(const Run::Cursor& lane, std::size_t turn) {
  const CallTurns* const turns = lane.lane->turns[turn];
  return turns == nullptr || turns->passed == lane.tickets[turn];
}

bool at_its_begin(const Run::Cursor& lane) {
  return lane.pass == lane.lane->first_pass && lane.next == lane.lane->begin;
}

}  // namespace

void take_turns(Run& run) {
  run.queued = true;
  for (Run::Cursor& lane : run.lanes) {
    if (lane.done()) {
      if (lane.pass != lane.lane->first_pass) note_sent(lane);  // else it had nothing to do
      continue;
    }
    std::uint32_t* ticket = lane.tickets;
    for (CallTurns* turns : lane.lane->turns) {
      if (turns != nullptr) *ticket = turns->taken++;
      ++ticket;
    }
    // Else it was alone, and has all turns.
    if (at_its_begin(lane)) lane.state = Run::Cursor::State::in_turn;
    lane.awaited = nullptr;
  }
}

bool has_turn(Run::Cursor& lane, const BoundStep& step) {
  const std::size_t connections = lane.lane->connections.size();
  const auto lacks = [&](std::size_t turn) {
    if (has(lane, turn)) return false;
    lane.awaited = lane.lane->turns[turn];
    lane.awaited_ticket = lane.tickets[turn];
    return true;
  };
  if ((step.sends && lacks(LaneTurns::sending(step.target))) ||
      (step.receives && lacks(LaneTurns::receiving(step.source))) ||
      (step.uses_scratch && lacks(LaneTurns::scratch(connections))) ||
      (step.stage != BoundStep::Stage::none && lacks(LaneTurns::places(connections)))) {
    return false;
  }
  lane.awaited = nullptr;
  return true;
}

void pass_turns(const Run::Cursor& lane) {
  note_sent(lane);
  for (CallTurns* turns : lane.lane->turns) {
    if (turns != nullptr) ++turns->passed;
  }
}

void pass_turns(const Run::Cursor& lane, const BoundStep& step) {
  const std::size_t connections = lane.lane->connections.size();
  const auto pass = [&](std::size_t turn) {
    if (CallTurns* const turns = lane.lane->turns[turn]) ++turns->passed;
  };
  if (step.last_send) {
    note_sent(lane, step.target);
    pass(LaneTurns::sending(step.target));
  }
  if (step.last_receive) pass(LaneTurns::receiving(step.source));
  if (step.last_scratch) pass(LaneTurns::scratch(connections));
  if (step.last_stage) pass(LaneTurns::places(connections));
}

bool reached_marks(Run& run) {
  if (!run.queued) {  // still alone
    for (const Run::Cursor& lane : run.lanes) note_sent(lane);
  }
  bool all = true;
  for (std::size_t i = 0; i < run.marks.size(); ++i) {
    all &= run.program->connections[i]->flushed(run.marks[i]);  // each moves its bytes meanwhile
  }
  return all;
}

bool waits_for_others(const Run& run) {
  return std::ranges::any_of(run.lanes, [](const Run::Cursor& lane) {
    return lane.state == Run::Cursor::State::in_turn && lane.waits_for_turn();
  });
}

bool uses(const Run& run, const Connection& connection) {
  return std::ranges::any_of(run.lanes, [&](const Run::Cursor& lane) {
    const auto& connections = lane.lane->connections;
    const auto at =
        static_cast<std::size_t>(std::ranges::find(connections, &connection) - connections.begin());
    if (at == connections.size()) return false;
    const auto uses_now = [&](std::size_t turn) {
      if (lane.lane->turns[turn] == nullptr) return false;
      return lane.state == Run::Cursor::State::moving ||
             (lane.state == Run::Cursor::State::in_turn && has(lane, turn));
    };
    return uses_now(LaneTurns::sending(at)) || uses_now(LaneTurns::receiving(at));
  });
}

}  // namespace coll
