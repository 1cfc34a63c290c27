// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: what a call should
// cost.
#pragma once

#include "collectives/algorithms.hpp"

namespace coll {

/// The constants of one kind of path between ranks, in the alpha-beta model (Hockney 1994;
/// Thakur, Rabenseifner, Gropp 2005, section 3). Defaults were measured with
/// perf/connection_benchmark and perf/reduce_benchmark on a 2-core virtual Xeon (Sapphire Rapids
/// class), 2026-11.
///
/// There is no gamma: to combine a received byte costs what to copy it costs, since both wait for
/// the lines of the other core (reduce against broadcast of 64 KiB to 16 MiB, 2 ranks, same
/// machine).
struct PathCost {
  double alpha_us;             ///< one empty message, one way, receiver polling
  double step_us;              ///< the executor's own time for one step
  double send_us_per_byte;     ///< to copy a byte into a slot
  double receive_us_per_byte;  ///< to copy it out, or to combine it
  double inline_bytes;         ///< up to which a message travels with its notice
  double long_us;              ///< that a longer one takes more
  double fetch_us;             ///< that one takes more which the receiver fetches
  double fetch_us_per_byte;    ///< then, instead of both copies

  /// Of a byte, at both ends together.
  [[nodiscard]] double beta(Loans loans) const {
    return loans == Loans::all ? fetch_us_per_byte : send_us_per_byte + receive_us_per_byte;
  }
};
inline constexpr PathCost kSharedMemoryPath{0.13, 0.03, 65e-6, 65e-6, 112, 0.15, 0.6, 70e-6};
inline constexpr PathCost kTcpPath{12.0, 1.5, 125e-6, 125e-6, 0, 0, 0, 250e-6};

/// Calls whose buffers exceed a core's own cache pay so many times as much for a byte.
inline constexpr double kOwnCacheBytes = 1 << 20, kBeyondOwnCache = 1.6;

/// A rank that waits for another one on its own core gives the core away and gets it back
/// (sched_yield).
inline constexpr double kHandOverUs = 1.4;

/// To send a byte that the receiver fetches costs its sender nothing, but readers of the same pages
/// get into each other's way (Chakraborty, Subramoni, Panda, "Contention-Aware Kernel-Assisted MPI
/// Collectives for Multi-/Many-Core Systems", Cluster 2017): so many cost together what one does. A
/// guess for hosts of many cores; with two it makes no difference.
inline constexpr double kReadersAtOnce = 8;

/// What the model needs to know of the machine the ranks are on.
struct CostView {
  PathCost path = kSharedMemoryPath;  ///< the slowest path in use
  double ranks_per_core = 1;          ///< on the most crowded host
};

/// Predicted microseconds of a call of `bytes` (the larger buffer of a rank) cut into messages of
/// at most `slice_bytes`, by a closed formula.
double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostView& view);

}  // namespace coll
