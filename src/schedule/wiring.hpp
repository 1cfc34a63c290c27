// SPDX-License-Identifier: Apache-2.0
// Which FIFO each step reads and writes.
#pragma once
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// The lanes of all ranks as a network: lanes and FIFOs have numbers, each FIFO one writing and one
/// reading lane.
struct Wiring {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct LaneEnd {
    Rank rank;
    std::uint32_t lane;        ///< of that rank
    std::size_t first_step;    ///< number of its first step, counted over all lanes
    std::uint32_t first_lane;  ///< number of the rank's lane 0
  };
  struct Fifo {
    std::uint32_t writer, reader;  ///< numbers of lanes
  };
  struct Ends {
    std::uint32_t in = kNone, out = kNone;  ///< numbers of FIFOs
  };
  std::vector<LaneEnd> lanes;
  std::vector<Fifo> fifos;
  std::vector<Ends> steps;  ///< of step s of lane l: [lanes[l].first_step + s]
};

/// Numbers everything. Fails if in one pass a lane sends a peer's lane more or fewer messages than
/// that one receives.
Result<Wiring> wire(std::span<const Schedule> schedules);

}  // namespace coll
