// SPDX-License-Identifier: Apache-2.0
// Which of a schedule's messages need no copy: they are read where the sender has them, or written
// where the receiver wants them.
#pragma once
#include "executor/program.hpp"
#include "schedule/schedule.hpp"

namespace coll {

struct Loan {
  /// In which calls may the peer read the message from the sender's buffer until the call ends? A
  /// plain send is read from its source, any other step from where it keeps the value. Neither a
  /// later step of the lane in the pass nor any step of another lane may write these chunks. The
  /// result of an all_reduce may take the place of the part that was lent: the peer has read it.
  /// (Passes write different windows of the user's buffers. Scratch is reused in every pass, and
  /// never lent.)
  BoundStep::When lend = BoundStep::When::never;
  /// Is the message a result, which its receiver copies, rather than a part that it combines? (A
  /// part that is fetched is combined from the slot that it was copied to.)
  bool complete = false;
};

/// The loans of a schedule, for each lane and step.
std::vector<std::vector<Loan>> find_loans(const Schedule& schedule);

struct MayLand {
  /// In which calls may the peer write the message to its place in the output as soon as the call,
  /// and then the window, has begun? Before the step, no step of its lane may touch these chunks,
  /// also by the other name that a buffer has in a call in place, except as below; of other lanes
  /// no step at all may. The step must only keep the message, and perhaps pass it on.
  BoundStep::When when = BoundStep::When::never;
  /// In a call in place, the rank's part lies there until it has been sent. The message holds it,
  /// so whoever sends that comes after whoever has read the part.
  bool part_first = false;
};

/// The landings of a schedule, for each lane and step.
std::vector<std::vector<MayLand>> find_landings(const Schedule& schedule);

}  // namespace coll
