// SPDX-License-Identifier: Apache-2.0
// Which NUMA node a set of processors is of.
#pragma once
#include <sched.h>

#include <string>

namespace coll {

/// The one NUMA node that all processors of the set belong to, as Linux numbers it; -1 if they are
/// of several, or if ROOT/sys does not say.
int numa_node_of(const cpu_set_t& cpus, const std::string& root = "");

}  // namespace coll
