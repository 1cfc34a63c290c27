// SPDX-License-Identifier: Apache-2.0
// How coll-tune measures algorithms and cuts in turns.
#pragma once
#include <functional>
#include <vector>

#include "coll_perf/coll_perf_buffer.hpp"
#include "coll_perf/coll_perf_session.hpp"
#include "coll_tune/coll_tune_race.hpp"

namespace perf {

/// What all ranks know of all ranks, as the library's planner sees it.
const coll::World& world_of(coll_comm_t comm);

struct Tuning {
  std::vector<Operation> operations;
  std::vector<std::size_t> sizes;  ///< bytes
  double seconds = 90;             ///< for everything, about
};

/// Is told of each race that begins.
using Progress = std::function<void(Operation, std::size_t bytes)>;

/// Every operation with every size, all algorithms of a point in turns: round after round, so that
/// what disturbs the machine disturbs them all. Then, where a call can be cut in several ways, the
/// cuts of the fastest. Each recipe has a communicator of its own that it is forced on. Collective;
/// equal on all ranks.
std::vector<Race> measure_races(const Session& session, const Options& options,
                                const Tuning& tuning, const Progress& progress);

}  // namespace perf
