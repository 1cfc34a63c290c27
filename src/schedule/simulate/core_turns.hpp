// SPDX-License-Identifier: Apache-2.0
// CoreTurns: which simulated rank has a shared core.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/simulate/network.hpp"

namespace coll {

/// A core goes from rank to rank in a circle, and stays with a rank as long as that rank has work.
/// If no rank has work, the core is idle. It keeps circulating, but without events: where it is
/// when a rank gets work is computed.
class CoreTurns {
 public:
  CoreTurns(const Network& network, std::size_t ranks);

  [[nodiscard]] std::uint32_t core_of(std::uint32_t rank) const { return core_of_[rank]; }
  /// The ranks of the core.
  [[nodiscard]] const std::vector<std::uint32_t>& ranks(std::uint32_t core) const {
    return cores_[core].ranks;
  }
  /// The rank that has the core.
  [[nodiscard]] std::uint32_t holder(std::uint32_t core) const {
    return cores_[core].ranks[cores_[core].turn];
  }
  [[nodiscard]] bool idle(std::uint32_t core) const { return cores_[core].idle; }

  /// A rank of an idle core has work from `now` on. Returns when the core reaches the next rank.
  double wake(std::uint32_t core, double now);
  /// The holder has no more work. Returns when the next rank has the core.
  double pass_on(std::uint32_t core, double now);
  /// No rank has work: the core becomes idle.
  void rest(std::uint32_t core, double now);

  /// The holder works for `us` microseconds.
  void work(std::uint32_t core, double us) { cores_[core].busy_us += us; }
  /// The working time of the busiest core, in microseconds.
  [[nodiscard]] double busy_us() const;

 private:
  struct Core {
    std::vector<std::uint32_t> ranks;
    std::size_t turn = 0;
    bool idle = true;
    double idle_since = 0;
    double busy_us = 0;
  };
  double hand_over_us_;
  std::vector<std::uint32_t> core_of_;  ///< by rank
  std::vector<Core> cores_;
};

}  // namespace coll
