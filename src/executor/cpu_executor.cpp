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
    lane.told = lane.pass;
    lane.combined = 0;
    mover::enter_window(run, lane);
  }
  run.expects = !run.program->expected.empty() && run.extents.blocks == nullptr;
}

void CpuExecutor::queue(Run& run) {
  take_turns(run);
}

/// Only a lane that has its turns knows which messages come next.
void CpuExecutor::expect_first(Run& run) {
  run.expects = false;
  for (Cursor& lane : run.lanes)
    if (lane.state == Cursor::State::moving) mover::expect_messages(run, lane);
}

bool CpuExecutor::advance(Run& run) {
  if (run.expects) [[unlikely]]
    expect_first(run);
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
  for (const Expected& one : run.program->expected) one.landing->cancel();
}

}  // namespace coll
