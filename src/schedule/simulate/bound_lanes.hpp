// SPDX-License-Identifier: Apache-2.0
// BoundLanes: the lanes of all ranks as a simulation runs them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/simulate/simulate.hpp"
#include "schedule/window.hpp"

namespace coll {

/// The lanes of all ranks. Every step knows its FIFOs and its cost. Binding reads each step once,
/// so that the passes, copies and runs of a simulation need not look anything up.
class BoundLanes {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  /// From a lane to the same lane of a peer. The copies of a lane have a FIFO each, all alike.
  struct Fifo {
    std::uint32_t writer = kNone, reader = kNone;  ///< lanes; kNone: no schedule has such a lane
    Route route;
  };
  /// What a step takes in one pass.
  struct Cost {
    double us = 0;
    double bytes = 0;  ///< length of its message
    friend bool operator==(const Cost&, const Cost&) = default;
  };
  /// Of a step in every pass but the last, and in the last.
  struct Costs {
    Cost full, last;
    friend bool operator==(const Costs&, const Costs&) = default;
  };
  struct Step {
    std::uint32_t in = kNone, out = kNone;  ///< FIFOs
    std::uint32_t cost = 0;                 ///< index for `costs`
    std::int32_t wait_step = -1;            ///< as in coll::Step
    std::int16_t wait_lane = -1;
  };
  struct Lane {
    std::uint32_t rank = 0;    ///< index of its schedule
    std::uint32_t number = 0;  ///< index of the lane in that schedule
    std::size_t first_step = 0, steps = 0;
  };

  /// Keeps references to the schedules.
  BoundLanes(std::span<const Schedule> schedules, const Network& network, const Load& load,
             const Windows& windows, const Disturbance& disturbance, const Symmetry& symmetry);

  [[nodiscard]] std::span<const Schedule> schedules() const { return schedules_; }
  [[nodiscard]] std::span<const Lane> lanes() const { return lanes_; }
  /// The first lane of a rank; its others follow. Of the number of ranks: the number of lanes.
  [[nodiscard]] std::uint32_t first_lane(std::size_t rank) const { return first_lane_[rank]; }
  [[nodiscard]] std::span<const Fifo> fifos() const { return fifos_; }
  [[nodiscard]] const Step* steps_of(const Lane& lane) const {
    return steps_.data() + lane.first_step;
  }
  [[nodiscard]] const Costs& costs(const Step& step) const { return costs_[step.cost]; }
  /// How long the busiest core works in so many passes of which none is the last, and in the last;
  /// 0 where the lanes of a rank run side by side.
  [[nodiscard]] double work_us(std::uint64_t full_passes, bool last, const Network& network) const;

 private:
  class Binding;

  std::span<const Schedule> schedules_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> first_lane_;
  std::vector<Fifo> fifos_;
  std::vector<Step> steps_;
  std::vector<Costs> costs_;
  /// By rank: the sum over its steps.
  struct Work {
    double full_us = 0, last_us = 0;
  };
  std::vector<Work> work_;
};

}  // namespace coll
