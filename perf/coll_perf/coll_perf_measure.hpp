// SPDX-License-Identifier: Apache-2.0
// How long a call takes, and whether its result is right.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "coll_perf/coll_perf_overlap.hpp"
#include "gpu/gpu_traffic.hpp"

namespace perf {

/// The times of single calls in seconds. A call takes as long as its slowest rank.
struct Percentiles {
  double min = 0, median = 0, p99 = 0;
};

struct Sample {
  double time_s = 0;  ///< median over batches of the ranks' combined mean per call
  double min_s = 0;   ///< the fastest batch
  double mean_s = 0;  ///< over batches
  double algbw = 0;   ///< GB/s, 10^9 bytes
  double busbw = 0;
  double cpu_s = 0;                    ///< processor time of a call, mean over ranks
  double cores = 0;                    ///< that all ranks together keep busy
  long calls = 0;                      ///< timed ones
  std::optional<std::uint64_t> wrong;  ///< elements on all ranks; nothing: not checked
  std::optional<Percentiles> percentiles;
  std::optional<Overlap> overlap;
  std::optional<GpuUse> gpu;  ///< with buffers in a GPU's memory
};

/// Checks `options.checks` times, warms up, then times batches of calls back to back, each batch
/// behind a barrier. `buffers` has those of each call that runs beside others (`options.group`,
/// `options.inflight`). Collective: the same arguments on every rank.
Sample measure(const Session& session, const Point& point, bool in_place,
               std::vector<std::unique_ptr<Buffers>>& buffers, const Options& options);

}  // namespace perf
