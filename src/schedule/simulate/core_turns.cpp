// SPDX-License-Identifier: Apache-2.0
// Whose turn it is on a core that simulated ranks share.
#include "schedule/simulate/core_turns.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

CoreTurns::CoreTurns(const Network& network, std::size_t ranks)
    : hand_over_us_(network.hand_over_us) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t core = network.core.empty() ? rank : network.core[rank];
    if (core >= cores_.size()) cores_.resize(core + 1);
    core_of_.push_back(core);
    cores_[core].ranks.push_back(rank);
  }
}

double CoreTurns::wake(std::uint32_t number, double now) {
  Core& core = cores_[number];
  core.idle = false;
  if (core.ranks.size() == 1 || hand_over_us_ <= 0) return now;
  const double turns = std::ceil((now - core.idle_since) / hand_over_us_);
  core.turn = (core.turn + static_cast<std::size_t>(turns)) % core.ranks.size();
  return std::max(now, core.idle_since + turns * hand_over_us_);
}

double CoreTurns::pass_on(std::uint32_t number, double now) {
  Core& core = cores_[number];
  core.turn = (core.turn + 1) % core.ranks.size();
  return now + hand_over_us_;
}

void CoreTurns::rest(std::uint32_t number, double now) {
  cores_[number].idle = true;
  cores_[number].idle_since = now;
}

double CoreTurns::busy_us() const {
  double most = 0;
  for (const Core& core : cores_) most = std::max(most, core.busy_us);
  return most;
}

}  // namespace coll
