// SPDX-License-Identifier: Apache-2.0
// How coll-tune measures algorithms and cuts in turns.
#pragma once
#include <functional>
#include <vector>

#include "coll_perf/coll_perf_buffer.hpp"
#include "coll_perf/coll_perf_session.hpp"
#include "coll_tune/coll_tune_duel.hpp"
#include "coll_tune/coll_tune_race.hpp"
#include "planner/tuning_table.hpp"

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
/// equal on all ranks. About `seconds`.
std::vector<Race> measure_races(const Session& session, const Options& options,
                                const Tuning& tuning, double seconds, const Progress& progress);

/// The calls that these tables plan differently, in turns: first as before, then as after. The
/// tables are the same on all ranks. Collective; equal on all ranks. About `seconds`.
std::vector<Duel> measure_duels(const Options& options, const Tuning& tuning,
                                const coll::TuningTable& before, const coll::TuningTable& after,
                                double seconds, const Progress& progress);

}  // namespace perf
