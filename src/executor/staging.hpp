// SPDX-License-Identifier: Apache-2.0
// Messages that several peers get are written once.
#pragma once
#include "executor/program.hpp"

namespace coll {

/// Gives each lane that has readers its places, if there is memory.
void give_places(Program& program, const SharedMemorySource& memory);

}  // namespace coll
