// SPDX-License-Identifier: Apache-2.0
// The events of a simulated call, as they happen.
#include "schedule/simulate/simulation.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedule/schedule_fault.hpp"

namespace coll {

Simulation::Simulation(const BoundLanes& bound, const Network& network, const Load& load,
                       const Extent& extent, const Disturbance& disturbance)
    : bound_(bound),
      network_(network),
      load_(load),
      extent_(extent),
      disturbance_(disturbance),
      copies_(load.copies),
      lanes_(bound.lanes().size() * copies_),
      ranks_(bound.schedules().size()),
      cores_(network, bound.schedules().size()),
      link_free_(network.links.size()),
      link_busy_(network.links.size()),
      rank_end_(bound.schedules().size()) {
  for (std::uint32_t lane = 0; lane < bound.lanes().size(); ++lane) {
    const BoundLanes::Lane& of = bound.lanes()[lane];
    for (std::uint32_t copy = 0; copy < copies_; ++copy) {
      LaneState& state = lanes_[copy_of(lane, copy)];
      state.steps = bound.steps_of(of);
      state.size = of.steps;
      state.rank = of.rank;
      state.lane = of.number;
      state.copy = copy;
      state.pass = copy;
    }
  }
  fifos_.reserve(bound.fifos().size() * copies_);
  for (const BoundLanes::Fifo& fifo : bound.fifos()) {
    for (std::uint32_t copy = 0; copy < copies_; ++copy) {
      fifos_.push_back({.route = &fifo.route,
                        .writer = copy_of(fifo.writer, copy),
                        .reader = copy_of(fifo.reader, copy)});
    }
  }
}

std::uint32_t Simulation::copy_of(std::uint32_t lane, std::uint32_t copy) const {
  if (lane == kNone) return kNone;
  const BoundLanes::Lane& of = bound_.lanes()[lane];
  const std::uint32_t first = bound_.first_lane(of.rank);
  const std::uint32_t lanes = bound_.first_lane(of.rank + std::size_t{1}) - first;
  return first * copies_ + copy * lanes + of.number;
}

/// A rank's next call begins when all its lanes are done with the one before, and all it lent has
/// been received.
bool Simulation::may_call(const LaneState& lane) const {
  if (lane.call > ranks_[lane.rank].call) return false;
  return lane.call == 0 || lane.step != 0 || lane.pass != lane.copy || lane.lent == 0;
}

void Simulation::end_call(std::uint32_t rank, double now) {
  us_ = std::max(us_, now);
  rank_end_[rank] = std::max(rank_end_[rank], now);
  OfRank& state = ranks_[rank];
  if (++state.lanes_done < state.lanes) return;
  state.lanes_done = 0;
  ++state.call;
  const std::uint32_t end = bound_.first_lane(rank + std::size_t{1}) * copies_;
  for (std::uint32_t lane = bound_.first_lane(rank) * copies_; lane < end; ++lane) {
    unblock(lane, Blocked::call, now);
  }
}

/// Whether the step waits for one of another lane, of the same copy and pass, that is not done.
bool Simulation::too_early(std::uint32_t lane, const BoundLanes::Step& step) {
  if (step.wait_lane < 0) return false;
  const LaneState& own = lanes_[lane];
  const std::uint32_t sibling = lane - own.lane + static_cast<std::uint32_t>(step.wait_lane);
  LaneState& other = lanes_[sibling];
  const auto place = [](const LaneState& of, std::size_t at) {
    return std::tuple(of.call, of.pass, at);
  };
  if (place(other, other.step) > place(own, static_cast<std::size_t>(step.wait_step))) return false;
  std::uint32_t* last = &other.first_waiter;
  while (*last != kNone) last = &lanes_[*last].next_waiter;
  *last = lane;
  return true;
}

void Simulation::begin(std::uint32_t number, double now) {
  LaneState& lane = lanes_[number];
  const BoundLanes::Step& step = lane.steps[lane.step];
  if (too_early(number, step)) {
    lane.blocked = Blocked::wait;
    return;
  }
  if (!may_call(lane)) {
    lane.blocked = Blocked::call;
    return;
  }
  FifoState* in = step.in != kNone ? &fifos_[number_of(step.in, lane)] : nullptr;
  FifoState* out = step.out != kNone ? &fifos_[number_of(step.out, lane)] : nullptr;
  if (in != nullptr && in->arrived == 0) {
    lane.blocked = Blocked::empty;
    return;
  }
  if (out != nullptr && out->held == load_.credits) {
    lane.blocked = Blocked::full;
    return;
  }
  const BoundLanes::Costs& costs = bound_.costs(step);
  lane.cost = lane.pass == extent_.last_pass ? costs.last : costs.full;
  if (in != nullptr) --in->arrived;
  if (out != nullptr) {
    ++out->held;
    if (lane.cost.bytes >= out->route->lent_bytes) ++lane.lent;
  }
  OfRank& rank = ranks_[lane.rank];
  (rank.first_ready == kNone ? rank.first_ready : lanes_[rank.last_ready].next_ready) = number;
  rank.last_ready = number;
  const std::uint32_t core = cores_.core_of(lane.rank);
  if (!network_.threads) return run_next(lane.rank, now);
  if (!cores_.idle(core)) return;
  const double at = cores_.wake(core, now);
  if (at == now && cores_.holder(core) == lane.rank) return run_next(lane.rank, now);
  events_.put(at, core, Kind::turn);
}

void Simulation::run_next(std::uint32_t rank, double now) {
  const std::uint32_t number = ranks_[rank].first_ready;
  LaneState& lane = lanes_[number];
  ranks_[rank].first_ready = std::exchange(lane.next_ready, kNone);
  cores_.work(cores_.core_of(rank), lane.cost.us);
  events_.put(now + lane.cost.us, number, Kind::end);
}

/// Who has the core goes on, or passes it on if there is somebody who can use it. As long as
/// nothing else happens, nobody else gets work.
void Simulation::take_turn(std::uint32_t core, double now) {
  const auto has_work = [&](std::uint32_t rank) { return ranks_[rank].first_ready != kNone; };
  if (!has_work(cores_.holder(core)) && std::ranges::none_of(cores_.ranks(core), has_work))
    return cores_.rest(core, now);
  while (!has_work(cores_.holder(core))) {
    now = cores_.pass_on(core, now);
    if (events_.next_at() <= now) return events_.put(now, core, Kind::turn);
  }
  run_next(cores_.holder(core), now);
}

void Simulation::send(const LaneState& lane, double now) {
  ++messages_made_;
  std::uint32_t message = static_cast<std::uint32_t>(messages_.size());
  if (free_messages_.empty()) {
    messages_.emplace_back();
  } else {
    message = free_messages_.back();
    free_messages_.pop_back();
  }
  messages_[message] = {
      .fifo = number_of(lane.steps[lane.step].out, lane), .bytes = lane.cost.bytes, .arrival = now};
  cross(message, now);
}

/// The head of the message is before its next link, or has crossed the last. It crosses a link when
/// that is free, and the rest follows it: switches have room for what cannot go on at once.
void Simulation::cross(std::uint32_t index, double now) {
  Message& message = messages_[index];
  FifoState& fifo = fifos_[message.fifo];
  if (message.link == fifo.route->links.size()) {
    // In order: what comes behind has crossed each link after this, and may be a shorter one.
    fifo.last = std::max(fifo.last, message.arrival + fifo.route->crossing_us(message.bytes));
    events_.put(fifo.last, message.fifo, Kind::arrive);
    if (network_.lanes_copy) events_.put(message.arrival, fifo.writer, Kind::sent);
    free_messages_.push_back(index);
    return;
  }
  const std::uint32_t link = fifo.route->links[message.link++];
  const double from = std::max(now, link_free_[link]);
  double share = 1;
  for (const Disturbance::OnLink& on : disturbance_.links) {
    if (on.link == link && from >= on.from_us) share -= on.busy;
  }
  if (share <= 0) {
    fifo.lost = true;
    return;
  }
  const double us =
      network_.occupied_us(network_.links[link], *fifo.route, load_.slice_bytes, message.bytes) /
      share;
  link_free_[link] = from + us;
  link_busy_[link] += us;
  message.arrival = std::max(message.arrival, from + us);
  if (from > now) {
    events_.put(from, index, Kind::cross);
  } else {
    cross(index, now);
  }
}

void Simulation::unblock(std::uint32_t number, Blocked why, double now) {
  if (number == kNone) return;
  LaneState& lane = lanes_[number];
  if (lane.blocked != why) return;
  lane.blocked = Blocked::no;
  begin(number, now);
}

void Simulation::end(std::uint32_t number, double now) {
  const LaneState& lane = lanes_[number];
  const bool sends = lane.steps[lane.step].out != kNone;
  if (sends) send(lane, now);
  if (!sends || !network_.lanes_copy) go_on(number, now);
}

/// From a step that has ended to the next.
void Simulation::go_on(std::uint32_t number, double now) {
  LaneState& lane = lanes_[number];
  const std::uint32_t in = lane.steps[lane.step].in;
  bool called = false;
  if (++lane.step == lane.size) {
    lane.step = 0;
    lane.pass += copies_;
    called = lane.pass >= extent_.passes;
    if (called) {
      lane.pass = lane.copy;
      ++lane.call;
    }
  }
  std::uint32_t waiter = std::exchange(lane.first_waiter, kNone);
  if (in != kNone) {
    FifoState& fifo = fifos_[number_of(in, lane)];
    --fifo.held;
    if (lane.cost.bytes >= fifo.route->lent_bytes) --lanes_[fifo.writer].lent;
    if (fifo.writer != number) {
      unblock(fifo.writer, Blocked::full, now);
      unblock(fifo.writer, Blocked::call, now);
    }
  }
  while (waiter != kNone) {
    const std::uint32_t next = std::exchange(lanes_[waiter].next_waiter, kNone);
    unblock(waiter, Blocked::wait, now);
    waiter = next;
  }
  if (called) end_call(lane.rank, now);
  if (lane.call < extent_.calls) {
    begin(number, now);
  } else {
    --lanes_left_;
  }
  if (network_.threads) take_turn(cores_.core_of(lane.rank), now);
}

Status Simulation::run() {
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    const LaneState& lane = lanes_[number];
    if (lane.size == 0 || lane.pass >= extent_.passes) continue;
    ++lanes_left_;
    ++ranks_[lane.rank].lanes;
    const double from = disturbance_.start_us.empty() ? 0 : disturbance_.start_us[lane.rank];
    events_.put(from, number, Kind::begin);
  }
  while (!events_.empty()) {
    const SimulationEvent event = events_.take();
    if (event.at > extent_.most_us) {
      gave_up_ = true;
      return {};
    }
    switch (event.kind) {
      case Kind::begin:
        begin(event.subject, event.at);
        break;
      case Kind::end:
        end(event.subject, event.at);
        break;
      case Kind::sent:
        go_on(event.subject, event.at);
        break;
      case Kind::cross:
        cross(event.subject, event.at);
        break;
      case Kind::arrive:
        ++fifos_[event.subject].arrived;
        unblock(fifos_[event.subject].reader, Blocked::empty, event.at);
        break;
      case Kind::turn:
        take_turn(event.subject, event.at);
        break;
    }
  }
  return lanes_left_ == 0 ? Status{} : stuck();
}

/// Who waits, for what: a lost message first, else the first lane.
Status Simulation::stuck() const {
  std::string text;
  Code code = Code::internal;
  for (const LaneState& lane : lanes_) {
    if (lane.blocked == Blocked::no) continue;
    const Schedule& schedule = bound_.schedules()[lane.rank];
    const bool lost =
        lane.blocked == Blocked::empty && fifos_[number_of(lane.steps[lane.step].in, lane)].lost;
    if (!text.empty() && !lost) continue;
    const Step step = schedule.lanes[lane.lane][lane.step];
    text = "rank " + std::to_string(schedule.rank) + " lane " + std::to_string(lane.lane) +
           " step " + std::to_string(lane.step) + " waits for ever for ";
    text += lane.blocked == Blocked::call   ? "its call to end"
            : lane.blocked == Blocked::wait ? "step " + std::to_string(step.wait_step) +
                                                  " of lane " + std::to_string(step.wait_lane)
            : lane.blocked == Blocked::empty ? "a message of rank " + std::to_string(step.source)
                                             : "a credit of rank " + std::to_string(step.target);
    if (!lost) continue;
    code = Code::unreachable;
    text += ", which went over a link that had failed";
    break;
  }
  return failed(code, bound_.schedules().front().algorithm + ": " + text);
}

}  // namespace coll
