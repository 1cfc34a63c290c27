// SPDX-License-Identifier: Apache-2.0
// The constants of the machine, and closed formulas for a call's time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/algorithms.hpp"

namespace coll {

/// The constants of one kind of path between ranks, in the alpha-beta model (Hockney 1994;
/// Thakur, Rabenseifner, Gropp 2005, section 3), with what LogP calls overhead (Culler et al.
/// 1993). Those within a host are the best fit to times of all algorithms on 2, 4 and 8 ranks of a
/// 2-core virtual Xeon (Sapphire Rapids class), 2026-11 (docs/performance.md).
///
/// There is no gamma: to combine a received byte costs what to copy it costs, since both wait for
/// the lines of the other core (reduce against broadcast of 64 KiB to 16 MiB, 2 ranks, same
/// machine).
struct PathCost {
  double alpha_us = 0;             ///< one empty message, one way, receiver polling
  double step_us = 0;              ///< the executor's own time for one step
  double send_us = 0;              ///< that one takes more which sends
  double send_us_per_byte = 0;     ///< to copy a byte into a slot
  double receive_us_per_byte = 0;  ///< to copy it out, or to combine it
  double slowdown = 1;             ///< how many times so much both cost beyond the caches
  double inline_bytes = 0;         ///< up to which a message travels with its notice
  double line_bytes = 0;           ///< up to which it does so in one cache line
  double line_us = 0;              ///< that the second line comes later
  double long_us = 0;              ///< that a longer message takes more
  double page_bytes = 0;        ///< of which the first so many bytes take more, where cores differ:
  double page_us_per_byte = 0;  ///< no prefetcher has seen them coming
  double fetched_bytes = 0;     ///< from which one is fetched where it may be
  double fetch_us = 0;          ///< that one takes then
  double fetch_us_per_byte = 0;  ///< and for a byte, instead of both copies
  double fetch_slowdown = 1;     ///< how many times so much at most, beyond the caches
};
inline constexpr PathCost kSharedMemoryPath{.alpha_us = 0.105,
                                            .step_us = 0.035,
                                            .send_us = 0.02,
                                            .send_us_per_byte = 57e-6,
                                            .receive_us_per_byte = 57e-6,
                                            .slowdown = 1.4,
                                            .inline_bytes = 112,
                                            .line_bytes = 48,
                                            .line_us = 0.09,
                                            .long_us = 0.11,
                                            .page_bytes = 4096,
                                            .page_us_per_byte = 38e-6,
                                            .fetched_bytes = 16 << 10,
                                            .fetch_us = 1,
                                            .fetch_us_per_byte = 32e-6,
                                            .fetch_slowdown = 4.5};
/// Ethernet between hosts: a guess at what is usual, for nothing here could be measured there.
inline constexpr PathCost kTcpPath{.alpha_us = 12,
                                   .step_us = 1.5,
                                   .send_us_per_byte = 125e-6,
                                   .receive_us_per_byte = 125e-6,
                                   .slowdown = 1.6};

/// TCP that does not leave the kernel: the loopback, or a pair of virtual devices.
inline constexpr PathCost kLoopbackPath{.alpha_us = 0.5,
                                        .step_us = 0.2,
                                        .send_us = 2.4,
                                        .send_us_per_byte = 110e-6,
                                        .receive_us_per_byte = 110e-6,
                                        .slowdown = 1.15,
                                        .page_bytes = 4096,
                                        .page_us_per_byte = 130e-6};

/// To copy a byte from one place of a rank to another, and how many times so much beyond the
/// caches.
inline constexpr double kCopyUsPerByte = 25e-6, kCopySlowdown = 2.3;

/// Messages to several ranks are written once from so many bytes on, to all of them together, as
/// the executor does it.
inline constexpr double kStagedBytes = 14 << 10;

/// Whether a call finds its buffers in a core's own cache, which the ranks of the core share.
inline constexpr double kOwnCacheBytes = 1 << 20;
constexpr bool in_own_cache(double bytes, double ranks_per_core) {
  return bytes * std::max(1.0, ranks_per_core) <= kOwnCacheBytes;
}

/// Where ranks share cores, a byte that is fetched in cache takes so many times as long: between
/// two copies of one rank others have had the core, its caches and its page tables.
inline constexpr double kCrowdedFetch = 2;

/// How many times as long as in cache a byte takes that is fetched, in a call of `bytes`. Copies
/// through slots slow down at once beyond a core's own cache; what is fetched, little by little.
double fetch_slowdown(const PathCost& path, double bytes, double ranks_per_core);

/// Where ranks share cores, the slots that those of one core use in turn may be too many for the
/// caches, their own and the other cores': then a copy through slots takes so many times as long.
inline constexpr double kColdSlots = 2.2, kSlotCacheBytes = 4 << 20;

/// A rank that waits for another one on its own core gives the core away and gets it back
/// (sched_yield).
inline constexpr double kHandOverUs = 1.3;

/// To send a byte that the receiver fetches costs its sender nothing, but readers of the same pages
/// get into each other's way (Chakraborty, Subramoni, Panda, "Contention-Aware Kernel-Assisted MPI
/// Collectives for Multi-/Many-Core Systems", Cluster 2017): so many cost together what one does. A
/// guess for hosts of many cores; with two it makes no difference.
inline constexpr double kReadersAtOnce = 8;

/// How many times as long as the constants say it takes to copy a byte, and to fetch one, in powers
/// of two: what is measured differs a little each time, and decides only where much depends on it.
struct CopyFactors {
  /// A copy from another core also waits for its lines, which one in a core's own cache does not
  /// show, so it does not get much faster. The dearest fetch is dearer than any two copies: that of
  /// a kernel which forbids it.
  static constexpr std::int32_t kLeast = -1, kMostCopy = 2, kMostFetch = 4;
  std::int32_t copy = 0;
  std::int32_t fetch = 0;

  [[nodiscard]] bool sensible() const {
    return copy >= kLeast && copy <= kMostCopy && fetch >= kLeast && fetch <= kMostFetch;
  }
  friend bool operator==(const CopyFactors&, const CopyFactors&) = default;
};
CopyFactors copy_factors(double copy_us_per_byte, double fetch_us_per_byte);

/// Of each host, those of the rank that was disturbed the least; of hosts, the slowest copy and the
/// slowest fetch.
CopyFactors agreed(const std::vector<CopyFactors>& of_ranks, const Layout& layout);

/// What the model needs to know of the machine the ranks are on.
struct CostView {
  PathCost path = kSharedMemoryPath;  ///< the slowest path in use
  PathCost between = kTcpPath;        ///< those between hosts
  CopyFactors factors = {};           ///< within hosts, of what is not combined
  double ranks_per_core = 1;          ///< on the most crowded host
  std::vector<std::uint32_t> cores;   ///< by host; empty: as the line above has it for each
};

/// Those that count for an operation: what combines is planned with the same constants everywhere,
/// for its bits must not depend on a measurement.
CopyFactors factors_for(const CostView& view, Collective collective);

/// The costs of a path within a host, and of copies there, in calls of an operation.
PathCost inside_cost(const CostView& view, Collective collective);
double copy_us_per_byte(const CostView& view, Collective collective);

/// Predicted microseconds of a call of `bytes` (the larger buffer of a rank) cut into messages of
/// at most `slice_bytes`, by a closed formula.
double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const PathCost& path, double ranks_per_core);

}  // namespace coll
