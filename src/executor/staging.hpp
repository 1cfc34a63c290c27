// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: messages that several peers get are written once.
#pragma once
#include "executor/program.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// For each lane and step of a schedule. A lane stages only where all its runs of equal messages
/// go to the same peers: that tells when a place is free again.
std::vector<std::vector<BoundStep::Stage>> find_stages(const Schedule& schedule);

/// Gives each lane that stages its places, if there is memory.
void give_places(Program& program, const SharedMemorySource& memory);

}  // namespace coll
