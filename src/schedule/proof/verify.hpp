// SPDX-License-Identifier: Apache-2.0
// The proof that a set of schedules works.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// What one fair run of all ranks showed; numbers for the heads of the algorithms' files and for
/// plans.
struct Verified {
  std::uint64_t steps_total = 0;
  std::uint32_t steps_most = 0;        ///< of one rank, all lanes
  std::uint32_t rounds = 0;            ///< longest chain of dependent messages (depth)
  std::uint64_t chunks_sent_most = 0;  ///< by one rank, in chunks
  std::uint64_t chunks_sent_total = 0;
  std::uint64_t chunks_received_most = 0;  ///< by one rank
  std::uint64_t chunks_reduced_most = 0;
  std::uint32_t scratch_most = 0;
  std::uint32_t message_most = 0;  ///< chunks of the longest message
  bool same_order_everywhere =
      true;  ///< every rank's copy of a reduced chunk has one expression tree: equal bits
};

/// What can be counted without running anything.
Verified counted(std::span<const Schedule> schedules);

/// Proves, by one fair symbolic run (lanes are a Kahn process network: every interleaving gives the
/// same): (a) every send meets its receive, with equal counts; (b) no deadlock with `credits`
/// messages per FIFO, over two passes, where a step receives before it waits for a credit to send
/// (an executor that holds on to the received slot meanwhile needs one credit more); (c) the
/// post-condition of the operation, where the content of a chunk is the expression tree of
/// contributions (rank, chunk), so that a double count, a lost rank, a wrong place and a missing or
/// doubled `finish` have a name; (d) conflicting accesses of two lanes of a rank are ordered by
/// waits, and scratch is private to a lane; (e) the same in place, wherever in-place is allowed,
/// and nothing reads a space the rank does not have or beyond its chunks, or scratch before it was
/// written. `schedules[r]` is rank r's. The failure names rank, lane, step and what is wrong.
Result<Verified> verify(std::span<const Schedule> schedules, std::uint32_t credits = 1);

}  // namespace coll
