// SPDX-License-Identifier: Apache-2.0
// Simulation: the event queue of one simulated call.
#pragma once
#include <limits>
#include <span>
#include <vector>

#include "schedule/simulate/bound_lanes.hpp"
#include "schedule/simulate/core_turns.hpp"
#include "schedule/simulate/event_queue.hpp"

namespace coll {

/// Runs all lanes of all ranks as processes in time. A step can run when its message has arrived
/// and its connection has a credit; it begins when its rank's thread has a core. It ends when its
/// cost has passed. Then it returns the credit of its message and passes its own message to the
/// links. Calls follow each other without a pause, as in a benchmark.
class Simulation {
 public:
  /// How much of a call to run, and how often.
  struct Extent {
    std::uint64_t calls = 1;
    std::uint64_t passes = 1;     ///< the first passes of each call
    std::uint64_t last_pass = 0;  ///< the last pass of a whole call
    /// Gives up when this time has passed.
    double most_us = std::numeric_limits<double>::infinity();
  };

  /// Keeps references to the arguments.
  Simulation(const BoundLanes& bound, const Network& network, const Load& load,
             const Extent& extent, const Disturbance& disturbance);

  Status run();

  /// Whether `run` gave up; then all other results are those of a part.
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  /// The time when the last rank was done.
  [[nodiscard]] double us() const { return us_; }
  [[nodiscard]] const std::vector<double>& rank_end() const { return rank_end_; }
  [[nodiscard]] const std::vector<double>& link_busy() const { return link_busy_; }
  /// How long the busiest core was busy with steps.
  [[nodiscard]] double core_busy() const { return network_.threads ? cores_.busy_us() : 0; }
  [[nodiscard]] std::uint64_t messages() const { return messages_made_; }

 private:
  static constexpr std::uint32_t kNone = BoundLanes::kNone;
  /// A FIFO between two copies of lanes.
  struct FifoState {
    const Route* route = nullptr;
    std::uint32_t writer = kNone, reader = kNone;  ///< copies of lanes
    std::uint32_t arrived = 0;                     ///< messages that have arrived and wait
    std::uint32_t held = 0;                        ///< credits in use
    double last = 0;                               ///< arrival time of the latest message
    bool lost = false;                             ///< a message was sent over a failed link
  };
  enum class Blocked : std::uint8_t { no, wait, empty, full, call };
  /// A copy of a lane.
  struct LaneState {
    const BoundLanes::Step* steps = nullptr;
    std::size_t size = 0;    ///< number of steps
    std::size_t step = 0;    ///< the current one
    std::uint32_t rank = 0;  ///< index of its schedule
    std::uint32_t lane = 0;  ///< index of the lane in that schedule
    std::uint32_t copy = 0;
    std::uint32_t lent = 0;              ///< messages that its call waits for
    std::uint32_t next_ready = kNone;    ///< the next in its rank's queue
    std::uint32_t first_waiter = kNone;  ///< the first lane that waits for a step of this one
    std::uint32_t next_waiter = kNone;   ///< the next that waits for the same lane
    Blocked blocked = Blocked::no;
    std::uint64_t call = 0, pass = 0;
    BoundLanes::Cost cost{};  ///< of the current step, once it has begun
  };
  /// A message on its way over the links of its FIFO's route.
  struct Message {
    std::uint32_t fifo = kNone;
    std::uint32_t link = 0;  ///< the next link, counted along the route
    double bytes = 0;
    double arrival = 0;  ///< arrival time of its last byte, as far as the links crossed so far tell
  };
  using Kind = SimulationEvent::Kind;
  struct OfRank {
    std::uint64_t call = 0;        ///< the current call
    std::uint32_t lanes = 0;       ///< lanes that have work
    std::uint32_t lanes_done = 0;  ///< lanes that are done with the call
    /// Lanes whose steps can run, in the order in which they became so.
    std::uint32_t first_ready = kNone, last_ready = kNone;
  };

  void begin(std::uint32_t lane, double now);
  void end(std::uint32_t lane, double now);
  void go_on(std::uint32_t lane, double now);
  void run_next(std::uint32_t rank, double now);
  void take_turn(std::uint32_t core, double now);
  void send(const LaneState& lane, double now);
  void cross(std::uint32_t message, double now);
  void unblock(std::uint32_t lane, Blocked why, double now);
  [[nodiscard]] bool may_call(const LaneState& lane) const;
  void end_call(std::uint32_t rank, double now);
  [[nodiscard]] bool too_early(std::uint32_t lane, const BoundLanes::Step& step);
  [[nodiscard]] Status stuck() const;

  /// The number of a copy of a lane. The lanes of a rank follow each other copy by copy.
  [[nodiscard]] std::uint32_t copy_of(std::uint32_t lane, std::uint32_t copy) const;
  /// The number of a lane's copy of a FIFO.
  [[nodiscard]] std::uint32_t number_of(std::uint32_t fifo, const LaneState& lane) const {
    return fifo * copies_ + lane.copy;
  }

  const BoundLanes& bound_;
  const Network& network_;
  const Load& load_;
  Extent extent_;
  const Disturbance& disturbance_;
  std::uint32_t copies_;

  std::vector<LaneState> lanes_;
  std::vector<OfRank> ranks_;
  CoreTurns cores_;
  std::vector<FifoState> fifos_;
  std::vector<double> link_free_, link_busy_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  EventQueue events_;
  std::uint64_t messages_made_ = 0;
  std::size_t lanes_left_ = 0;
  double us_ = 0;
  bool gave_up_ = false;
  std::vector<double> rank_end_;
};

}  // namespace coll
