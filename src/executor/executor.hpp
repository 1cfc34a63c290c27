// SPDX-License-Identifier: Apache-2.0
// What moves runs: the CPU does, and other devices may.
#pragma once
#include "executor/run.hpp"

namespace coll {

/// Moves the runs of its programs. Never waits. Used by one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Begins a bound run. No allocation, lock or system call between here and the first message.
  virtual void begin(Run& run) = 0;
  /// Gives a run its tickets, behind all runs that have theirs (call_turns.hpp).
  virtual void queue(Run& run) = 0;
  /// One round over the run's lanes; true if anything moved.
  virtual bool advance(Run& run) = 0;
  /// The run has failed and ends here: what it lent is withdrawn before the caller may change it.
  virtual void abandon(Run& run) = 0;
};

}  // namespace coll
