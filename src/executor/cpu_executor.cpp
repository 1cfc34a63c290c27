// SPDX-License-Identifier: Apache-2.0
// Runs begun, moved and abandoned by the CPU.
#include "executor/cpu_executor.hpp"

#include "executor/mover.hpp"

namespace coll {

using mover::Cursor;

Result<std::unique_ptr<Program>> CpuExecutor::bind(const Schedule& schedule,
                                                   const ProgramShape& shape,
                                                   const ConnectionSource& connection,
                                                   ScratchPool& pool) {
  COLL_ASSIGN(std::unique_ptr<Program> program, coll::bind(schedule, shape, connection, pool));
  program->executor = this;
  return program;
}

void CpuExecutor::begin(Run& run) {
  run.left = run.lanes.size();
  run.queued = run.moved = run.lent = run.flushed = run.by_pass = false;
  for (Cursor& lane : run.lanes) {
    lane.pass = lane.lane->first_pass;
    if (lane.pass >= run.extents.windows.passes || lane.lane->begin == lane.lane->end) {
      lane.state = Cursor::State::done;
      --run.left;
      continue;
    }
    lane.state = Cursor::State::moving;
    mover::enter_window(run, lane);
  }
}

void CpuExecutor::queue(Run& run) {
  take_turns(run);
}

bool CpuExecutor::advance(Run& run) {
  bool moved =
      run.extents.blocks == nullptr ? mover::advance_lanes<false>(run) : advance_unequal_lanes(run);
  if (run.left == 0 && !run.flushed) {
    run.flushed = !(run.program->needs_progress || run.lent) || reached_marks(run);
    moved |= run.flushed;
  }
  return moved;
}

void CpuExecutor::abandon(Run& run) {
  for (Lending* lending : run.program->lendings) {
    if (lending != nullptr) lending->withdraw();
  }
}

}  // namespace coll
