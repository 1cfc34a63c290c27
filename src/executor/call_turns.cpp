// SPDX-License-Identifier: Apache-2.0
// How runs share connections: they take turns, and each waits for its own messages only.
#include "executor/call_turns.hpp"

#include <algorithm>

namespace coll {
namespace {

/// Bytes that the lane sent may still be in this process. To be called before another run sends.
void note_sent(const Run::Cursor& lane) {
  Mark* mark = lane.marks;
  for (Connection* connection : lane.lane->connections) {
    if (connection->progress_source() != nullptr) *mark = connection->mark();
    ++mark;
  }
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
    for (CallTurns* turns : lane.lane->turns) *ticket++ = turns->taken++;
    if (!has_turn(lane)) lane.state = Run::Cursor::State::waiting;
  }
}

bool has_turn(const Run::Cursor& lane) {
  const std::uint32_t* ticket = lane.tickets;
  return std::ranges::all_of(lane.lane->turns,
                             [&](const CallTurns* turns) { return turns->passed == *ticket++; });
}

void pass_turns(const Run::Cursor& lane) {
  note_sent(lane);
  for (CallTurns* turns : lane.lane->turns) ++turns->passed;
}

bool reached_marks(Run& run) {
  if (!run.queued) std::ranges::for_each(run.lanes, note_sent);  // still alone
  bool all = true;
  for (std::size_t i = 0; i < run.marks.size(); ++i) {
    all &= run.program->connections[i]->flushed(run.marks[i]);  // each moves its bytes meanwhile
  }
  return all;
}

}  // namespace coll
