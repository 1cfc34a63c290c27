// SPDX-License-Identifier: Apache-2.0
// How runs share connections: they take turns, and each waits for its own messages only.
//
// Each direction of a connection serves runs in the order in which they were begun, and so do a
// lane's scratch and its places for staged messages. A run that is alone has them all. When a
// second run begins, each gets a ticket for everything that its lanes use. From then on a lane has
// a thing from its first step that uses it until its last one, so runs follow each other closely.
// (A lane that was already moving keeps all until it is done.)
#pragma once
#include <cstddef>

#include "executor/run.hpp"

namespace coll {

/// Indices into a lane's turns, which are null for what the lane does not use.
struct LaneTurns {
  static constexpr std::size_t sending(std::size_t connection) { return 2 * connection; }
  static constexpr std::size_t receiving(std::size_t connection) { return 2 * connection + 1; }
  static constexpr std::size_t scratch(std::size_t connections) { return 2 * connections; }
  static constexpr std::size_t places(std::size_t connections) { return 2 * connections + 1; }
  static constexpr std::size_t count(std::size_t connections) { return 2 * connections + 2; }
};

/// Gives a run that has none its tickets, behind all runs that have theirs.
void take_turns(Run& run);
/// The lane, which kept all turns until now, is done.
void pass_turns(const Run::Cursor& lane);

// Of a lane whose state is `in_turn`:
/// Are all earlier runs done with what the step uses? Notes what it waits for if they are not.
[[nodiscard]] bool has_turn(Run::Cursor& lane, const BoundStep& step);
/// The step is done, in the last pass.
void pass_turns(const Run::Cursor& lane, const BoundStep& step);

/// The lane has just lent a message on the connection with this index.
inline void note_loan(Run& run, const Run::Cursor& lane, std::size_t connection) {
  lane.marks[connection] = lane.lane->connections[connection]->mark();
  run.lent = true;
}
/// All lanes are done. Has all that the run sent left, and has what it lent been read?
[[nodiscard]] bool reached_marks(Run& run);

/// A lane of it waits until earlier runs are done with something.
[[nodiscard]] bool waits_for_others(const Run& run);
/// Does a lane of it have its turn on the connection?
[[nodiscard]] bool uses(const Run& run, const Connection& connection);

}  // namespace coll
