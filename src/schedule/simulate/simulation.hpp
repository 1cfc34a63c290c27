// SPDX-License-Identifier: Apache-2.0
// Simulation: the event queue of one simulated call.
#pragma once
#include <deque>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedule/fan_out.hpp"
#include "schedule/simulate/core_turns.hpp"
#include "schedule/simulate/simulate.hpp"
#include "schedule/window.hpp"

namespace coll {

/// Runs all lanes of all ranks as processes in time. A step can run when its message has arrived
/// and its connection has a credit; it begins when its rank's thread has a core. It ends when its
/// cost has passed. Then it returns the credit of its message and passes its own message to the
/// links. Calls follow each other without a pause, as in a benchmark.
class Simulation {
 public:
  /// Simulates `calls` calls, and the first `passes` passes of each. Keeps references to the
  /// arguments.
  Simulation(std::span<const Schedule> schedules, const Network& network, const Load& load,
             const Windows& windows, std::uint64_t calls, std::uint64_t passes,
             const Disturbance& disturbance, const Symmetry& symmetry);

  Status run();

  /// The time when the last rank was done.
  [[nodiscard]] double us() const { return us_; }
  [[nodiscard]] const std::vector<double>& rank_end() const { return rank_end_; }
  [[nodiscard]] const std::vector<double>& link_busy() const { return link_busy_; }
  /// How long the busiest core was busy with steps.
  [[nodiscard]] double core_busy() const { return network_.threads ? cores_.busy_us() : 0; }
  [[nodiscard]] std::uint64_t messages() const { return messages_made_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Fifo {
    std::uint32_t writer = kNone, reader = kNone;  ///< lane numbers
    Route route;
    std::uint32_t arrived = 0;  ///< messages that have arrived and wait
    double last = 0;            ///< arrival time of the latest message
    std::uint32_t held = 0;     ///< credits in use
    std::uint32_t lent = 0;     ///< messages among them that the writer's call waits for
    bool lost = false;          ///< a message was sent over a failed link
  };
  enum class Blocked : std::uint8_t { no, wait, empty, full, call };
  struct LaneState {
    std::uint32_t rank = 0;     ///< index of its schedule
    std::uint32_t lane = 0;     ///< index of the lane in that schedule
    std::uint32_t fan_out = 0;  ///< index in `fan_outs_`
    std::uint32_t copy = 0;
    std::uint64_t call = 0, pass = 0;
    std::size_t step = 0;
    Blocked blocked = Blocked::no;
    // the current step, once it has begun
    std::uint32_t in = kNone, out = kNone;  ///< FIFO numbers
    double bytes = 0;
    std::unordered_map<Rank, std::uint32_t> from, to;
    std::vector<std::uint32_t> waiting;  ///< lanes that wait for a step of this lane
  };
  /// A message on its way over the links of its FIFO's route.
  struct Message {
    std::uint32_t fifo = kNone;
    std::uint32_t link = 0;  ///< the next link, counted along the route
    double bytes = 0;
    double arrival = 0;  ///< arrival time of its last byte, as far as the links crossed so far tell
  };
  enum class Kind : std::uint8_t { begin, end, sent, cross, arrive, turn };
  struct Event {
    double at;
    std::uint64_t order;
    /// A lane; for `cross` a message, for `arrive` a FIFO, for `turn` a core.
    std::uint32_t subject;
    Kind kind;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct OfRank {
    std::uint64_t call = 0;                              ///< the current call
    std::uint32_t lanes = 0;                             ///< lanes that have work
    std::uint32_t lanes_done = 0;                        ///< lanes that are done with the call
    std::deque<std::pair<std::uint32_t, double>> ready;  ///< lanes and the cost of their steps
  };

  void schedule_event(double at, std::uint32_t subject, Kind kind) {
    events_.push({at, events_made_++, subject, kind});
  }
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
  [[nodiscard]] bool too_early(std::uint32_t lane, const Step& step);
  [[nodiscard]] double cost_us(const LaneState& lane, const Step& step) const;
  [[nodiscard]] bool is_staged(const LaneState& lane) const;
  std::uint32_t fifo(std::uint32_t lane, Rank peer, bool incoming);
  [[nodiscard]] Status stuck() const;

  [[nodiscard]] const Lane& steps_of(const LaneState& lane) const {
    return schedules_[lane.rank].lanes[lane.lane];
  }

  std::span<const Schedule> schedules_;
  const Network& network_;
  const Load& load_;
  const Windows& windows_;
  std::uint64_t calls_, passes_;
  const Disturbance& disturbance_;
  Symmetry symmetry_;

  std::vector<std::vector<FanOut>>
      fan_outs_;  ///< by lane of a schedule, if any messages are staged
  std::vector<LaneState> lanes_;
  /// By rank: index of its first lane; its lanes follow copy by copy. One more entry at the end.
  std::vector<std::uint32_t> first_lane_;
  std::vector<OfRank> ranks_;
  CoreTurns cores_;
  std::vector<Fifo> fifos_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint32_t>>> by_ends_;
  std::vector<double> link_free_, link_busy_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_made_ = 0, messages_made_ = 0;
  std::size_t lanes_left_ = 0;
  double us_ = 0;
  std::vector<double> rank_end_;
};

}  // namespace coll
