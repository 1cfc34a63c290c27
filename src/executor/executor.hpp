// SPDX-License-Identifier: Apache-2.0
// What moves runs: the CPU does, and other devices may.
#pragma once
#include <memory>

#include "base/status.hpp"
#include "executor/program.hpp"
#include "executor/run.hpp"

namespace coll {

/// Makes programs of schedules, and moves their runs. Never waits. Used by one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Binds a schedule, as bind() of program.hpp does. An executor may derive its programs from
  /// Program: it gets only its own ones back.
  virtual Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                                const ConnectionSource& connection,
                                                ScratchPool& pool) = 0;

  /// Begins a bound run, and resets what the run keeps of an earlier call (`by_pass` too). No
  /// allocation, lock or system call between here and the first message.
  virtual void begin(Run& run) = 0;
  /// Gives a run its tickets, behind all runs that have theirs (call_turns.hpp).
  virtual void queue(Run& run) = 0;
  /// One round over the run's lanes; true if anything moved. An executor that cannot go on says why
  /// in the run's `failure`.
  virtual bool advance(Run& run) = 0;
  /// The run has failed and ends here: what it lent is withdrawn before the caller may change it.
  virtual void abandon(Run& run) = 0;
};

}  // namespace coll
