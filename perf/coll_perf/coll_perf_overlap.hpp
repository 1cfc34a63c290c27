// SPDX-License-Identifier: Apache-2.0
// How much of calls on streams hides behind what their caller computes.
#pragma once
#include <algorithm>

#include "coll_perf/coll_perf_call.hpp"

namespace perf {

/// Of one call: medians over rounds of the slowest rank's seconds, each from behind a barrier. With
/// several calls in flight a round has all of them.
struct Overlap {
  double comm_s = 0;       ///< the calls alone: given to their streams, waited for
  double compute_s = 0;    ///< the computation alone, on all ranks at once
  double total_s = 0;      ///< each call given, a part computed behind it; waited for all
  double comm_cpu_s = 0;   ///< processor time of `comm_s`, mean over rounds and ranks
  double total_cpu_s = 0;  ///< of `total_s`

  /// As OSU's benchmarks of nonblocking collectives have it (osu_iallreduce …; print_stats_nbc):
  /// 100 where computing hides the call, 0 where they take as long as one after the other. Only
  /// that OSU takes for `compute` what the computation takes beside the call, so that a call that
  /// slows its caller down looks hidden; here it is what the computation takes alone.
  [[nodiscard]] double percent() const {
    if (comm_s <= 0) return 0;
    return 100 * std::clamp(1 - (total_s - compute_s) / comm_s, 0.0, 1.0);
  }
};

/// `estimate_s`: what a call takes. With `rounds` 0 as many as fit `target_s`. Collective.
Overlap measure_overlap(const Session& session, CallSet& set, Compute kind, double estimate_s,
                        long rounds, double target_s);

}  // namespace perf
