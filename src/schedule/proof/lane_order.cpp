// SPDX-License-Identifier: Apache-2.0
// Vector clocks over a rank's lanes.
#include "schedule/proof/lane_order.hpp"

#include <algorithm>
#include <vector>

#include "schedule/cells.hpp"
#include "schedule/schedule_fault.hpp"

namespace coll {
namespace {

/// One rank's lanes, swept in an order that the waits allow.
class Sweep {
 public:
  Sweep(std::span<const Schedule> schedules, const Schedule& schedule, bool aliased)
      : schedules_(schedules),
        schedule_(schedule),
        cells_(schedule, aliased),
        aliased_(aliased),
        lanes_(schedule.lanes.size()),
        next_(lanes_, 0),
        clocks_(lanes_),
        last_(std::size_t{cells_.data} * lanes_) {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      clocks_[lane].resize((schedule.lanes[lane].size() + 1) * lanes_, 0);
    }
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t lane = 0; lane < lanes_; ++lane) {
        while (next_[lane] < schedule_.lanes[lane].size() && may_start(lane)) {
          COLL_TRY(perform(lane));
          moved = true;
        }
      }
    }
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      if (next_[lane] < schedule_.lanes[lane].size()) {
        return fault(schedules_, {schedule_.rank, lane, next_[lane]},
                     "is in a circle of waits: a deadlock");
      }
    }
    return {};
  }

 private:
  /// Step numbers + 1 of a lane's last accesses to a cell; 0: none.
  struct Access {
    std::uint32_t read = 0, write = 0;
  };

  bool may_start(std::size_t lane) const {
    const Step step = schedule_.lanes[lane][next_[lane]];
    return step.wait_lane < 0 || next_[static_cast<std::size_t>(step.wait_lane)] >
                                     static_cast<std::size_t>(step.wait_step);
  }

  /// A lane's clock after its first `steps` steps: how many steps of each lane came before.
  std::uint32_t* clock(std::size_t lane, std::size_t steps) {
    return clocks_[lane].data() + steps * lanes_;
  }

  Status perform(std::size_t lane) {
    const std::size_t index = next_[lane];
    const Step step = schedule_.lanes[lane][index];
    std::uint32_t* now = clock(lane, index + 1);
    std::copy_n(clock(lane, index), lanes_, now);
    now[lane] = static_cast<std::uint32_t>(index + 1);
    if (step.wait_lane >= 0) {
      const std::uint32_t* other = clock(static_cast<std::size_t>(step.wait_lane),
                                         static_cast<std::size_t>(step.wait_step) + 1);
      for (std::size_t i = 0; i < lanes_; ++i) now[i] = std::max(now[i], other[i]);
    }
    COLL_TRY(access(lane, step.from, step.count, false));
    COLL_TRY(access(lane, step.with, step.count, false));
    COLL_TRY(access(lane, step.into, step.count, true));
    ++next_[lane];
    return {};
  }

  Status access(std::size_t lane, const Operand& operand, std::uint32_t count, bool writes) {
    if (!operand.present() || operand.space == Space::scratch) return {};
    const std::size_t index = next_[lane];
    const std::uint32_t* now = clock(lane, index + 1);
    const std::uint32_t first = cells_.at(operand);
    for (std::uint32_t cell = first; cell < first + count; ++cell) {
      Access* last = last_.data() + std::size_t{cell} * lanes_;
      for (std::size_t other = 0; other < lanes_; ++other) {
        if (other == lane) continue;
        const std::uint32_t latest =
            writes ? std::max(last[other].read, last[other].write) : last[other].write;
        if (latest <= now[other]) continue;
        return fault(schedules_, {schedule_.rank, lane, index},
                     std::string("and lane ") + std::to_string(other) + " step " +
                         std::to_string(latest - 1) + (aliased_ ? " in place" : "") +
                         " use the same chunk, one writes it, and no wait orders them");
      }
      (writes ? last[lane].write : last[lane].read) = static_cast<std::uint32_t>(index + 1);
    }
    return {};
  }

  std::span<const Schedule> schedules_;
  const Schedule& schedule_;
  Cells cells_;
  bool aliased_;
  std::size_t lanes_;
  std::vector<std::size_t> next_;                   ///< step of each lane
  std::vector<std::vector<std::uint32_t>> clocks_;  ///< [lane][steps done][lane]
  std::vector<Access> last_;                        ///< [cell][lane]
};

}  // namespace

Status check_lane_order(std::span<const Schedule> schedules) {
  for (const Schedule& schedule : schedules) {
    if (schedule.lanes.size() < 2) continue;
    for (const bool aliased : {false, true}) {
      COLL_TRY(Sweep(schedules, schedule, aliased).run());
    }
  }
  return {};
}

}  // namespace coll
