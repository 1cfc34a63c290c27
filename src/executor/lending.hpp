// SPDX-License-Identifier: Apache-2.0
// Which of a schedule's messages may be lent instead of copied.
#pragma once
#include "executor/program.hpp"
#include "schedule/schedule.hpp"

namespace coll {

struct Loan {
  /// In which calls may the peer read the message from the sender's buffer until the call ends? A
  /// plain send is read from its source, any other step from where it keeps the value. Neither a
  /// later step of the lane in the pass nor any step of another lane may write these chunks.
  /// (Passes write different windows of the user's buffers. Scratch is reused in every pass, and
  /// never lent.)
  BoundStep::When lend = BoundStep::When::never;
  /// Is the message a result, which its receiver copies, rather than a part that it combines? (A
  /// part is better combined where it lies than fetched first.)
  bool complete = false;
};

/// The loans of a schedule, for each lane and step.
std::vector<std::vector<Loan>> find_loans(const Schedule& schedule);

}  // namespace coll
