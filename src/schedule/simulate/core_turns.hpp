// SPDX-License-Identifier: Apache-2.0
// Whose turn it is on a core that simulated ranks share.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/simulate/network.hpp"

namespace coll {

/// A core goes from rank to rank in a circle, and stays with one as long as that has something to
/// do. Where none has it goes around all the same, but nothing happens until one does: it is idle,
/// and where it will be then is computed.
class CoreTurns {
 public:
  CoreTurns(const Network& network, std::size_t ranks);

  [[nodiscard]] std::uint32_t core_of(std::uint32_t rank) const { return core_of_[rank]; }
  /// The ranks of the core.
  [[nodiscard]] const std::vector<std::uint32_t>& ranks(std::uint32_t core) const {
    return cores_[core].ranks;
  }
  /// Who has it.
  [[nodiscard]] std::uint32_t holder(std::uint32_t core) const {
    return cores_[core].ranks[cores_[core].turn];
  }
  [[nodiscard]] bool idle(std::uint32_t core) const { return cores_[core].idle; }

  /// One of an idle core's ranks has something to do now. Returns when the core comes to the next.
  double wake(std::uint32_t core, double now);
  /// The holder has nothing more to do. Returns when the next has the core.
  double pass_on(std::uint32_t core, double now);
  /// Nobody has.
  void rest(std::uint32_t core, double now);

  void work(std::uint32_t core, double us) { cores_[core].busy_us += us; }
  /// Of the core that worked longest.
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
