// SPDX-License-Identifier: Apache-2.0
// The planner's view of a communicator; it alone of coll-tune looks inside one.
#include "c_api/c_api_door.hpp"
#include "coll_tune/coll_tune_measure.hpp"

namespace perf {

const coll::World& world_of(coll_comm_t comm) {
  return comm->communicator->world();
}

}  // namespace perf
