// SPDX-License-Identifier: Apache-2.0
// Which results may be stored past the caches.
#pragma once
#include "executor/program.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// For each lane and step of a schedule: may what it stores in a large output go to memory past the
/// caches? Only what no other step of the rank touches and, in place, none reads. All other lines
/// are in cache, or are wanted there, and passing the caches by would cost twice.
std::vector<std::vector<BoundStep::When>> find_streams(const Schedule& schedule);

}  // namespace coll
