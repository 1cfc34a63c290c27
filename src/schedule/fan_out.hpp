// SPDX-License-Identifier: Apache-2.0
// Messages that one lane sends to several peers in a row.
#pragma once
#include <vector>

#include "schedule/lane.hpp"

namespace coll {

/// The place of a step in a fan-out: consecutive steps that send the same message to one peer each.
struct FanOut {
  std::uint32_t readers = 0;  ///< number of peers that get the message; 0: not part of a fan-out
  bool first = false;         ///< the first step; the others send the same message again
};

/// The fan-outs of a lane, one entry per step. There are none if the lane's fan-outs go to
/// different sets of peers: an executor that stages messages needs the same peers each time to know
/// when a place is free again.
std::vector<FanOut> fan_outs(const Lane& lane);

}  // namespace coll
