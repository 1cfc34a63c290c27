// SPDX-License-Identifier: Apache-2.0
// The lanes of calls of unequal blocks.
#include "executor/mover.hpp"

namespace coll {

bool advance_unequal_lanes(Run& run) {
  return mover::advance_lanes<true>(run);
}

void enter_unequal_window(const Run& run, Run::Cursor& lane) {
  if (lane.entered != lane.pass) {  // a call of one pass that repeats is there already
    run.extents.enter(*run.program, *lane.lane, lane.pass, lane.extents);
    lane.entered = lane.pass;
  }
  lane.next = lane.lane->begin;
  lane.extent = lane.extents;
  lane.base[static_cast<int>(Space::input)] = reinterpret_cast<std::uintptr_t>(run.call.input);
  lane.base[static_cast<int>(Space::output)] = reinterpret_cast<std::uintptr_t>(run.call.output);
}

}  // namespace coll
