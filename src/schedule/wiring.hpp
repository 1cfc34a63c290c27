// SPDX-License-Identifier: Apache-2.0
// The wiring: which FIFO each step reads and writes.
#pragma once
#include <span>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// The lanes of all ranks as a network. Lanes and FIFOs are numbered, and each FIFO has one writing
/// and one reading lane.
struct Wiring {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct LaneEnd {
    Rank rank;
    std::uint32_t lane;        ///< number of the lane within that rank
    std::size_t first_step;    ///< number of its first step, counted over all lanes
    std::uint32_t first_lane;  ///< number of the rank's lane 0
  };
  struct Fifo {
    std::uint32_t writer, reader;  ///< lane numbers
  };
  struct Ends {
    std::uint32_t in = kNone, out = kNone;  ///< FIFO numbers
  };
  std::vector<LaneEnd> lanes;
  std::vector<Fifo> fifos;
  std::vector<Ends> steps;  ///< of step s of lane l: [lanes[l].first_step + s]
};

/// Numbers lanes and FIFOs. Fails if in one pass a lane sends another number of messages to a
/// peer's lane than that lane receives.
Result<Wiring> wire(std::span<const Schedule> schedules);

}  // namespace coll
