// SPDX-License-Identifier: Apache-2.0
// What must hold for each step by itself, before anything runs.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// The other rank of a send/recv pair that `rank` belongs to: its root, if that one's schedule
/// answers with the opposite operation; else kNoRank.
Rank pair_of(std::span<const Schedule> schedules, Rank rank);

/// Of each schedule by itself: the chunk map is the operation's, with as many parts as the first
/// one's, and every step is well-formed: peers exist, operands lie within spaces that the rank has
/// and do not overlap `into` in part (in place neither), the input is only read, `finish` is on a
/// combination, waits name steps of other lanes, and no two lanes share a scratch chunk. They are
/// of ranks 0, 1 …, perhaps not of all.
Status check_steps(std::span<const Schedule> schedules);

/// The same of all ranks' schedules, and these belong together: one spec, rank r at index r (with
/// send and recv, pairs and idle ranks).
Status check_rules(std::span<const Schedule> schedules);

}  // namespace coll
