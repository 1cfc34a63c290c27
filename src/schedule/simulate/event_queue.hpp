// SPDX-License-Identifier: Apache-2.0
// EventQueue: the events of a simulation that are still to come.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace coll {

struct SimulationEvent {
  enum class Kind : std::uint8_t { begin, end, sent, cross, arrive, turn };
  double at = std::numeric_limits<double>::infinity();
  std::uint64_t order = UINT64_MAX;  ///< among events of one time: as they were caused
  /// A lane; for `cross` a message, for `arrive` a FIFO, for `turn` a core.
  std::uint32_t subject = 0;
  Kind kind = Kind::begin;

  [[nodiscard]] bool operator>(const SimulationEvent& other) const {
    return at != other.at ? at > other.at : order > other.order;
  }
};

/// A heap behind a place for one event. Ranks that take turns cause one event after the other, and
/// most of these never enter the heap.
class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return next_.order == UINT64_MAX && rest_.empty(); }
  /// When the next event happens; infinity if there is none.
  [[nodiscard]] double next_at() const {
    return rest_.empty() ? next_.at : std::min(next_.at, rest_.top().at);
  }

  void put(double at, std::uint32_t subject, SimulationEvent::Kind kind) {
    SimulationEvent event{at, made_++, subject, kind};
    if (next_ > event) std::swap(next_, event);
    if (event.order != UINT64_MAX) rest_.push(event);
  }

  /// The next event; there is one.
  SimulationEvent take() {
    if (rest_.empty() || rest_.top() > next_) return std::exchange(next_, {});
    const SimulationEvent event = rest_.top();
    rest_.pop();
    return event;
  }

 private:
  SimulationEvent next_;  ///< one of the events, or none
  std::priority_queue<SimulationEvent, std::vector<SimulationEvent>, std::greater<>> rest_;
  std::uint64_t made_ = 0;
};

}  // namespace coll
