// SPDX-License-Identifier: Apache-2.0
// Proves that the lanes of a rank do not race for chunks.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// Checks that conflicting accesses of two lanes of one rank are ordered. Two accesses to a chunk
/// conflict if at least one of them writes. The lanes' own order and waits must order them, both
/// out of place and, where allowed, in place. One sweep over the steps uses vector clocks (Fidge
/// 1988, Mattern 1988) and keeps each lane's last read and write of a chunk (as FastTrack does,
/// Flanagan and Freund 2009).
///
/// The check is conservative: an order that exists only through messages to other ranks and back
/// does not count. Passes touch different elements, and a wait names a step of the same pass, so
/// one pass stands for all.
Status check_lane_order(std::span<const Schedule> schedules);

}  // namespace coll
