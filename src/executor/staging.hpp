// SPDX-License-Identifier: Apache-2.0
// Messages that several peers get are written once.
#pragma once
#include "executor/program.hpp"

namespace coll {

/// Gives places to each lane that sends the same to several peers, if `memory` has room for them.
void give_places(Program& program, const SharedMemorySource& memory);

}  // namespace coll
