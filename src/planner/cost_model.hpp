// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: what a call should
// cost.
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
  double alpha_us;             ///< one empty message, one way, receiver polling
  double step_us;              ///< the executor's own time for one step
  double send_us;              ///< that one takes more which sends
  double send_us_per_byte;     ///< to copy a byte into a slot
  double receive_us_per_byte;  ///< to copy it out, or to combine it
  double slowdown;             ///< how many times so much both cost beyond the caches
  double inline_bytes;         ///< up to which a message travels with its notice
  double line_bytes;           ///< up to which it does so in one cache line
  double line_us;              ///< that the second line comes later
  double long_us;              ///< that a longer message takes more
  double page_bytes;           ///< of which the first so many bytes take more, where cores differ:
  double page_us_per_byte;     ///< no prefetcher has seen them coming
  double fetched_bytes;        ///< from which one is fetched where it may be
  double fetch_us;             ///< that one takes then
  double fetch_us_per_byte;    ///< and for a byte, instead of both copies
  double fetch_slowdown;       ///< how many times so much at most, beyond the caches
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
                                   .send_us = 0,
                                   .send_us_per_byte = 125e-6,
                                   .receive_us_per_byte = 125e-6,
                                   .slowdown = 1.6,
                                   .inline_bytes = 0,
                                   .line_bytes = 0,
                                   .line_us = 0,
                                   .long_us = 0,
                                   .page_bytes = 0,
                                   .page_us_per_byte = 0,
                                   .fetched_bytes = 0,
                                   .fetch_us = 0,
                                   .fetch_us_per_byte = 250e-6,
                                   .fetch_slowdown = 1.6};

/// TCP that does not leave the kernel: the loopback, or a pair of virtual devices.
inline constexpr PathCost kLoopbackPath{.alpha_us = 0.5,
                                        .step_us = 0.2,
                                        .send_us = 2.4,
                                        .send_us_per_byte = 110e-6,
                                        .receive_us_per_byte = 110e-6,
                                        .slowdown = 1.15,
                                        .inline_bytes = 0,
                                        .line_bytes = 0,
                                        .line_us = 0,
                                        .long_us = 0,
                                        .page_bytes = 4096,
                                        .page_us_per_byte = 130e-6,
                                        .fetched_bytes = 0,
                                        .fetch_us = 0,
                                        .fetch_us_per_byte = 220e-6,
                                        .fetch_slowdown = 1.15};

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

/// What the model needs to know of the machine the ranks are on.
struct CostView {
  PathCost path = kSharedMemoryPath;  ///< the slowest path in use
  PathCost between = kTcpPath;        ///< those between hosts
  double ranks_per_core = 1;          ///< on the most crowded host
  std::vector<std::uint32_t> cores;   ///< by host; empty: as the line above has it for each
};

/// Predicted microseconds of a call of `bytes` (the larger buffer of a rank) cut into messages of
/// at most `slice_bytes`, by a closed formula.
double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostView& view);

}  // namespace coll
