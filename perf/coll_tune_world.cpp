// SPDX-License-Identifier: Apache-2.0
// perf/: tools that measure the library. This file: the planner's view of a communicator; it alone
// of coll-tune looks inside one.
#include "coll_tune_measure.hpp"
#include "communicator/c_api_door.hpp"

namespace perf {

const coll::World& world_of(coll_comm_t comm) {
  return comm->communicator->world();
}

}  // namespace perf
