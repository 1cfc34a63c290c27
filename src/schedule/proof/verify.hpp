// SPDX-License-Identifier: Apache-2.0
// The verifier: proves that a set of schedules works.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// What a fair run of all ranks shows: numbers for the heads of the algorithms' files and for
/// plans.
struct Verified {
  std::uint64_t steps_total = 0;
  std::uint32_t steps_most = 0;        ///< of the busiest rank, over all lanes
  std::uint32_t rounds = 0;            ///< the longest chain of dependent messages
  std::uint64_t chunks_sent_most = 0;  ///< by the busiest rank, in chunks
  std::uint64_t chunks_sent_total = 0;
  std::uint64_t chunks_received_most = 0;  ///< by the busiest rank
  std::uint64_t chunks_reduced_most = 0;
  std::uint32_t scratch_most = 0;
  std::uint32_t message_most = 0;  ///< chunks of the longest message
  /// Every rank's copy of a reduced chunk has the same expression tree, and so equal bits.
  bool same_order_everywhere = true;
};

/// A proof runs two passes: the run apart shows that passes do not mix. The run in place has the
/// same messages and needs only one.
inline constexpr std::uint32_t kProvenPasses = 2;

/// The numbers that can be counted without a run.
Verified counted(std::span<const Schedule> schedules);

/// Proves a set of schedules by one fair symbolic run. Lanes are a Kahn process network, so every
/// interleaving gives the same result. It proves:
///
/// (a) Every send meets its receive, with equal counts.
/// (b) There is no deadlock with `credits` messages per FIFO over two passes, if a step receives
///     before it waits for a credit to send. (An executor that holds the received slot meanwhile
///     needs one credit more.)
/// (c) The post-condition of the operation holds. The content of a chunk is the expression tree of
///     its contributions (rank, chunk), so the failure can name a double count, a lost rank, a
///     wrong place, and a missing or doubled `finish`.
/// (d) Waits order conflicting accesses of two lanes of a rank, and scratch is private to a lane.
/// (e) All of this also holds in place, wherever in-place calls are allowed. Nothing reads a space
///     that the rank does not have, reads beyond a space's chunks, or reads scratch before it was
///     written.
///
/// `schedules[r]` is rank r's. The failure names rank, lane, step and what is wrong.
Result<Verified> verify(std::span<const Schedule> schedules, std::uint32_t credits = 1);

}  // namespace coll
