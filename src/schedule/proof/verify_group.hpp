// SPDX-License-Identifier: Apache-2.0
// Proves that calls which are in flight together end.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// One call among others in flight.
struct GroupedSchedules {
  std::vector<Schedule> schedules;  ///< by rank; of a rank that has no part in it, without lanes
  std::uint32_t connections = 0;    ///< calls with other numbers use other connections
};

/// Proves that a group of calls ends if each of its calls ends alone, which verify() proves.
/// `issued[r]` names the calls of rank r in the order in which it issues them.
///
/// Each end of a connection serves calls in the order of their issue, each direction by itself. A
/// lane's step waits until a direction has come to its call. So a lane of a call waits for lanes of
/// the same call, and for calls that the same rank issued earlier and that use one of the lane's
/// directions. (Runs of one program also take turns on a lane's scratch. They share the lane's
/// directions too, so no other wait comes of it.) The proof checks:
///
/// (a) Both ends of each direction serve the same calls in the same order. Then every message meets
///     the call that it was sent for, as if the calls ran one after the other.
/// (b) No call waits for itself, along any chain of these waits. Then the calls can be sorted so
///     that each waits only for calls before it. The first waits for none and ends by its own
///     proof; by induction so does every other.
///
/// (b) is stricter than needed: it takes a call as a whole, while only single lanes wait.
///
/// The proof is about waiting on one communicator. That both ends also give a call the same number
/// is for its digest to check.
///
/// The failure names the calls by their numbers in `calls`, and the ranks.
Status verify_group(std::span<const GroupedSchedules> calls,
                    std::span<const std::vector<std::uint32_t>> issued);

}  // namespace coll
