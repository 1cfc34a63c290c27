// SPDX-License-Identifier: Apache-2.0
// The rules that each step must keep by itself, before anything runs.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// The other rank of `rank`'s send/recv pair: its root, if the root's schedule has the opposite
/// operation; else kNoRank.
Rank pair_of(std::span<const Schedule> schedules, Rank rank);

/// Checks each schedule by itself:
///
/// - The chunk map is the operation's, with as many parts as the first schedule's.
/// - Peers exist. Operands lie within spaces that the rank has, and do not overlap `into` in part,
///   also in place. The input is only read.
/// - `finish` and `swapped` are on a combination, and waits name steps of other lanes.
/// - No two lanes share a scratch chunk.
///
/// `schedules` are those of ranks 0, 1 …, not necessarily of all ranks.
Status check_steps(std::span<const Schedule> schedules);

/// Checks the schedules of all ranks, as check_steps does, and that they belong together: they have
/// one spec, and rank r is at index r. With send and recv they are pairs and idle ranks.
Status check_rules(std::span<const Schedule> schedules);

}  // namespace coll
