// SPDX-License-Identifier: Apache-2.0
// Which messages may be lent instead of copied.
#pragma once
#include "executor/program.hpp"
#include "schedule/schedule.hpp"

namespace coll {

struct Loan {
  /// May the message be read from the sender's buffer until the call ends: from where a plain send
  /// takes it, else from where the step keeps it? These chunks must not be written later by the
  /// same lane in the pass, nor by another lane at all. (Passes write different windows of the
  /// user's buffers; scratch is used again in every pass, and never lent.)
  BoundStep::When lend = BoundStep::When::never;
  /// Is it a result already, which its receiver will copy, and not a part that it will combine?
  /// (What was copied only to be combined had better be combined where it lies.)
  bool complete = false;
};

/// For each lane and step of a schedule.
std::vector<std::vector<Loan>> find_loans(const Schedule& schedule);

}  // namespace coll
