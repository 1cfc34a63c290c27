// SPDX-License-Identifier: Apache-2.0
// The ranks of this process: one, or several that are threads of it.
#pragma once
#include <functional>

#include "coll_perf/coll_perf_session.hpp"

namespace perf {

/// Calls `rank` once for each of the process's `options.ngpus` ranks, all at once, each in a thread
/// of its own if they are several. Returns the largest of their exit codes. Processes that a
/// launcher started have to call it together: all their ranks make one communicator.
int run_ranks(const Options& options, const std::function<int(const Seat&)>& rank);

}  // namespace perf
