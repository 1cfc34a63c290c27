// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank, over a topic.
#pragma once
#include <string>
#include <vector>

#include "base/status.hpp"
#include "control/topic.hpp"
#include "sys/clock.hpp"

namespace coll {

/// Every rank's text to every rank of the topic, in rank order: as `exchange` over a meeting, by
/// way of the hub. Blocking; before the topic is handed over. Fails on all ranks, by the deadline
/// and with the same failure, where one goes away or does not come (unless that is the hub).
Result<std::vector<std::string>> exchange(Topic& topic, std::string mine, Deadline deadline);

}  // namespace coll
