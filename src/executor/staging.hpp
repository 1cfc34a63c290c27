// SPDX-License-Identifier: Apache-2.0
// Messages that several peers get are written once.
#pragma once
#include "executor/program.hpp"

namespace coll {

/// Gives places to each lane that sends the same to several peers, if `pool` has any.
void give_places(Program& program, ScratchPool& pool);

}  // namespace coll
