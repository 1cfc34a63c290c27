// SPDX-License-Identifier: Apache-2.0
// The cost constants of the machine, and a closed formula for the time of a call.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/algorithms.hpp"

namespace coll {

/// The cost constants of one kind of path between ranks: the alpha-beta model (Hockney 1994;
/// Thakur, Rabenseifner, Gropp 2005, section 3), extended with LogP's overhead (Culler et al.
/// 1993). The constants within a host are the best fit to the times of all algorithms on 2, 4 and 8
/// ranks of a 2-core virtual Xeon (Sapphire Rapids class), 2026-11 (docs/performance.md).
///
/// The model has no gamma. Combining a received byte costs as much as copying it, because both wait
/// for the other core's cache lines (reduce compared with broadcast, 64 KiB to 16 MiB, 2 ranks,
/// same machine).
///
/// Members ending in _us are microseconds, in _us_per_byte microseconds per byte, in _bytes bytes.
struct PathCost {
  double alpha_us = 0;             ///< latency of an empty message, one way, receiver polling
  double step_us = 0;              ///< the executor's own time per step
  double send_us = 0;              ///< extra time of a step that sends
  double send_us_per_byte = 0;     ///< copies a byte into a slot
  double receive_us_per_byte = 0;  ///< copies a byte out of a slot, or combines it
  double slowdown = 1;             ///< factor on both copies for calls larger than the caches
  double inline_bytes = 0;         ///< the longest message that travels inside its cell
  double line_bytes = 0;           ///< the longest that fits in the first cache line of the cell
  double line_us = 0;              ///< extra latency of the second cache line
  double long_us = 0;              ///< extra time of a message longer than inline_bytes
  double page_bytes = 0;  ///< the first bytes of a slot, which no prefetcher has foreseen; they
                          ///< cost more if sender and receiver have cores of their own
  double page_us_per_byte = 0;  ///< extra time for each of them
  double fetched_bytes = 0;     ///< the shortest message that is fetched, where fetching is allowed
  double fetch_us = 0;          ///< fixed time of a fetch
  double fetch_us_per_byte = 0;  ///< fetches a byte; replaces both copies
  double fetch_slowdown = 1;     ///< the largest factor on it for calls larger than the caches
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
/// Ethernet between hosts: estimates of usual hardware; no such network was available to measure.
inline constexpr PathCost kTcpPath{.alpha_us = 12,
                                   .step_us = 1.5,
                                   .send_us_per_byte = 125e-6,
                                   .receive_us_per_byte = 125e-6,
                                   .slowdown = 1.6};

/// TCP that does not leave the kernel: loopback, or a pair of virtual devices (veth).
inline constexpr PathCost kLoopbackPath{.alpha_us = 0.5,
                                        .step_us = 0.2,
                                        .send_us = 2.4,
                                        .send_us_per_byte = 110e-6,
                                        .receive_us_per_byte = 110e-6,
                                        .slowdown = 1.15,
                                        .page_bytes = 4096,
                                        .page_us_per_byte = 130e-6};

/// Microseconds to copy a byte within a rank's memory, and the factor on it for calls larger than
/// the caches.
inline constexpr double kCopyUsPerByte = 25e-6, kCopySlowdown = 2.3;

/// The executor stages a message to several ranks, that is, writes it once for all of them, if its
/// bytes for all of them together reach this many.
inline constexpr double kStagedBytes = 14 << 10;

/// Whether the buffers of a call fit into a core's own cache, which the core's ranks share.
inline constexpr double kOwnCacheBytes = 1 << 20;
constexpr bool in_own_cache(double bytes, double ranks_per_core) {
  return bytes * std::max(1.0, ranks_per_core) <= kOwnCacheBytes;
}

/// Factor on the time to fetch a byte in cache where ranks share cores: between two copies of one
/// rank, other ranks have used the core, its caches and its page tables.
inline constexpr double kCrowdedFetch = 2;

/// Factor on the time to fetch a byte in a call of `bytes`, relative to a fetch in cache. Beyond a
/// core's own cache, copies through slots slow down at once; fetches slow down gradually.
double fetch_slowdown(const PathCost& path, double bytes, double ranks_per_core);

/// Where ranks share cores, the ranks of one core use many slots in turn. If these take more than
/// kSlotCacheBytes, they fit neither into the core's caches nor into those of other cores, and a
/// copy through slots takes kColdSlots times as long.
inline constexpr double kColdSlots = 2.2, kSlotCacheBytes = 4 << 20;

/// Microseconds of one change of ranks: a rank that waits for another rank of its core yields the
/// core (sched_yield) and gets it back later.
inline constexpr double kHandOverUs = 1.3;

/// A byte that receivers fetch costs its sender nothing, but readers of the same pages slow each
/// other down (Chakraborty, Subramoni, Panda, "Contention-Aware Kernel-Assisted MPI Collectives for
/// Multi-/Many-Core Systems", Cluster 2017): this many readers together cost as much time as one.
/// An estimate for hosts of many cores; with two cores it makes no difference.
inline constexpr double kReadersAtOnce = 8;

/// Measured copy and fetch times relative to the constants above, as exponents of two: 1 means
/// twice as long. The coarse scale hides that measurements differ a little each time, and changes
/// decisions only where they depend on it strongly.
struct CopyFactors {
  /// The bounds. A copy from another core also waits for its cache lines, which a copy in a core's
  /// own cache does not show, so it does not get much faster (kLeast). The most expensive fetch
  /// costs more than any two copies: it stands for a kernel that forbids fetching.
  static constexpr std::int32_t kLeast = -1, kMostCopy = 2, kMostFetch = 4;
  std::int32_t copy = 0;
  std::int32_t fetch = 0;

  [[nodiscard]] bool sensible() const {
    return copy >= kLeast && copy <= kMostCopy && fetch >= kLeast && fetch <= kMostFetch;
  }
  friend bool operator==(const CopyFactors&, const CopyFactors&) = default;
};
/// The factors for measured times of a copy and a fetch, in microseconds per byte.
CopyFactors copy_factors(double copy_us_per_byte, double fetch_us_per_byte);

/// The factors that all ranks plan with: within a host the fastest rank's, because it was disturbed
/// the least; among hosts the slowest copy and the slowest fetch. `of_ranks` is indexed by rank.
CopyFactors agreed(const std::vector<CopyFactors>& of_ranks, const Layout& layout);

/// What the model knows about the machine of the ranks.
struct CostView {
  PathCost path = kSharedMemoryPath;  ///< the slowest path in use
  PathCost between = kTcpPath;        ///< paths between hosts
  CopyFactors factors = {};           ///< within hosts, for operations that do not reduce
  double ranks_per_core = 1;          ///< on the most crowded host
  std::vector<std::uint32_t> cores;  ///< by host; empty: every host is as crowded as the line above
};

/// The factors to plan an operation with. Operations that reduce use the plain constants
/// everywhere, because the bits of a sum must not depend on a measurement.
CopyFactors factors_for(const CostView& view, Collective collective);

/// The costs of a path within a host, and microseconds per byte of copies there, in calls of an
/// operation.
PathCost inside_cost(const CostView& view, Collective collective);
double copy_us_per_byte(const CostView& view, Collective collective);

/// Predicts the microseconds of a call by a closed formula. `bytes` is the size of a rank's larger
/// buffer; the call is cut into messages of at most `slice_bytes`.
double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const PathCost& path, double ranks_per_core);

}  // namespace coll
