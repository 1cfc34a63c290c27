// SPDX-License-Identifier: Apache-2.0
// Messages that one lane sends to several peers in a row.
#pragma once
#include <vector>

#include "schedule/lane.hpp"

namespace coll {

/// One of several steps in a row that send the same to one peer each.
struct FanOut {
  std::uint32_t readers = 0;  ///< how many peers get it; 0: the step is no such one
  bool first = false;         ///< the others need only send it again
};

/// For each step of a lane; none where it sends different messages to different sets of peers: that
/// all go to the same ones tells who keeps them in one place when that is free again.
std::vector<FanOut> fan_outs(const Lane& lane);

}  // namespace coll
