// SPDX-License-Identifier: Apache-2.0
// The ranks that become a communicator, however they have come together.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/topic.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/clock.hpp"

namespace coll {

/// The ranks that agree, and how a text of each gets to all of them.
struct Assembly {
  Rank rank = 0;
  Rank size = 1;
  std::array<std::uint64_t, 2> job{};  ///< the communicator's secret name
  bool one_network = false;
  std::function<Result<std::vector<std::string>>(std::string mine)> exchange;
};
Assembly assembly_of(Meeting& meeting, Deadline deadline);
Assembly assembly_of(Topic& topic, Deadline deadline);

}  // namespace coll
