// SPDX-License-Identifier: Apache-2.0
// How runs share connections: they take turns, and each waits for its own messages only.
#pragma once
#include <cstddef>

#include "executor/run.hpp"

namespace coll {

/// Gives a run that has none its tickets, behind all that have theirs on the same connections.
void take_turns(Run& run);
/// Are all earlier runs done with the lane's connections?
[[nodiscard]] bool has_turn(const Run::Cursor& lane);
/// The lane is done, and the next run's turn begins.
void pass_turns(const Run::Cursor& lane);

/// The lane has just lent a message on the connection with this index.
inline void note_loan(Run& run, const Run::Cursor& lane, std::size_t connection) {
  lane.marks[connection] = lane.lane->connections[connection]->mark();
  run.lent = true;
}
/// All lanes are done. Has all that the run sent left, and has what it lent been read?
[[nodiscard]] bool reached_marks(Run& run);

}  // namespace coll
