// SPDX-License-Identifier: Apache-2.0
// The proof that lanes of a rank do not race for chunks.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// Every two accesses of two lanes of one rank to a chunk, of which one writes, are ordered by the
/// lanes' own order and by waits; apart, and in place where allowed. Vector clocks (Fidge 1988,
/// Mattern 1988) in one sweep over the steps, keeping each lane's last read and write of a chunk
/// (as FastTrack, Flanagan and Freund 2009).
///
/// Conservative: an order that only comes about through messages to other ranks and back does not
/// count. Passes touch different elements, and a wait is for a step of the same pass, so one pass
/// speaks for all.
Status check_lane_order(std::span<const Schedule> schedules);

}  // namespace coll
