// SPDX-License-Identifier: Apache-2.0
// The events of a simulated call, as they happen.
#include "schedule/simulate/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "schedule/schedule_fault.hpp"
#include "schedule/simulate/load_windows.hpp"

namespace coll {

Simulation::Simulation(std::span<const Schedule> schedules, const Network& network,
                       const Load& load, const Windows& windows, std::uint64_t calls,
                       std::uint64_t passes, const Disturbance& disturbance,
                       const Symmetry& symmetry)
    : schedules_(schedules),
      network_(network),
      load_(load),
      windows_(windows),
      calls_(calls),
      passes_(passes),
      disturbance_(disturbance),
      symmetry_(symmetry),
      ranks_(schedules.size()),
      cores_(network, schedules.size()),
      link_free_(network.links.size()),
      link_busy_(network.links.size()),
      rank_end_(schedules.size()) {
  for (std::uint32_t rank = 0; rank < schedules.size(); ++rank) {
    first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    const auto lanes = static_cast<std::uint32_t>(schedules[rank].lanes.size());
    const auto fan_out = static_cast<std::uint32_t>(fan_outs_.size());
    if (std::isfinite(network.staged_bytes)) {
      for (const Lane& lane : schedules[rank].lanes) fan_outs_.push_back(coll::fan_outs(lane));
    }
    for (std::uint32_t copy = 0; copy < load.copies; ++copy) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        LaneState& state = lanes_.emplace_back();
        state.rank = rank;
        state.lane = lane;
        state.copy = copy;
        state.fan_out = fan_out + lane;
        state.pass = copy;
      }
    }
  }
  first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
}

/// The FIFO between a lane and the same lane of a peer. Of a group that stands for all, the peer is
/// in another group by as much as the two differ.
std::uint32_t Simulation::fifo(std::uint32_t lane, Rank peer, bool incoming) {
  LaneState& own = lanes_[lane];
  auto& known = incoming ? own.from : own.to;
  if (const auto at = known.find(peer); at != known.end()) return at->second;
  const std::uint32_t number = lane - first_lane_[own.rank];
  Rank other = peer;
  std::uint64_t apart = 0;
  if (symmetry_.size > 0) {
    other = peer % symmetry_.size;
    apart = static_cast<std::uint64_t>(
        incoming ? symmetry_.groups_from(peer, schedules_[own.rank].spec.ranks)
                 : symmetry_.groups_to(peer));
  }
  const std::uint32_t there = first_lane_[static_cast<std::size_t>(other)] + number;
  const std::uint32_t writer = incoming ? there : lane, reader = incoming ? lane : there;
  auto& between = by_ends_[std::uint64_t{writer} << 32 | reader];
  std::uint32_t found = kNone;
  for (const auto& [distance, index] : between) {
    if (distance == apart) found = index;
  }
  if (found == kNone) {
    found = static_cast<std::uint32_t>(fifos_.size());
    const Rank rank = schedules_[own.rank].rank;
    fifos_.push_back({.writer = writer,
                      .reader = reader,
                      .route = incoming ? network_.route(peer, rank) : network_.route(rank, peer)});
    between.emplace_back(apart, found);
  }
  known.emplace(peer, found);
  return found;
}

/// Whether the step's message has been copied already, for another peer.
bool Simulation::is_staged(const LaneState& lane) const {
  if (fan_outs_.empty()) return false;
  const FanOut& fan_out = fan_outs_[lane.fan_out][lane.step];
  return fan_out.readers > 0 && !fan_out.first &&
         lane.bytes * fan_out.readers >= network_.staged_bytes;
}

double Simulation::cost_us(const LaneState& lane, const Step& step) const {
  const double bytes = lane.bytes;
  double us = network_.step_us;
  if (lane.in != kNone) us += fifos_[lane.in].route.receiving_us(bytes);
  if (lane.out != kNone) {
    const Route& route = fifos_[lane.out].route;
    us += is_staged(lane) ? route.send_us : route.sending_us(bytes);
  }
  if (step.with.present()) us += bytes * network_.reduce_us_per_byte;
  const bool stays =
      step.from == step.into || (load_.one_buffer && step.from.chunk == step.into.chunk);
  if (!step.receives() && step.into.present() && !stays) us += bytes * network_.copy_us_per_byte;
  if (!disturbance_.slowness.empty()) us *= disturbance_.slowness[lane.rank];
  return us;
}

/// A rank's next call begins when all its lanes are done with the one before, and all it lent has
/// been received.
bool Simulation::may_call(const LaneState& lane) const {
  if (lane.call > ranks_[lane.rank].call) return false;
  if (lane.call == 0 || lane.step != 0 || lane.pass != lane.copy) return true;
  return std::none_of(lane.to.begin(), lane.to.end(), [&](const auto& to) {
    const Fifo& fifo = fifos_[to.second];
    return fifo.lent > 0;
  });
}

void Simulation::end_call(std::uint32_t rank, double now) {
  us_ = std::max(us_, now);
  rank_end_[rank] = std::max(rank_end_[rank], now);
  OfRank& state = ranks_[rank];
  if (++state.lanes_done < state.lanes) return;
  state.lanes_done = 0;
  ++state.call;
  for (std::uint32_t lane = first_lane_[rank]; lane < first_lane_[rank + 1]; ++lane) {
    unblock(lane, Blocked::call, now);
  }
}

/// Whether the step waits for one of another lane, of the same copy and pass, that is not done.
bool Simulation::too_early(std::uint32_t lane, const Step& step) {
  if (step.wait_lane < 0) return false;
  const LaneState& own = lanes_[lane];
  const std::uint32_t sibling = lane - own.lane + static_cast<std::uint32_t>(step.wait_lane);
  LaneState& other = lanes_[sibling];
  const auto place = [](const LaneState& of, std::size_t at) {
    return std::tuple(of.call, of.pass, at);
  };
  if (place(other, other.step) > place(own, static_cast<std::size_t>(step.wait_step))) return false;
  other.waiting.push_back(lane);
  return true;
}

void Simulation::begin(std::uint32_t number, double now) {
  LaneState& lane = lanes_[number];
  const Step step = steps_of(lane)[lane.step];
  if (too_early(number, step)) {
    lane.blocked = Blocked::wait;
    return;
  }
  if (!may_call(lane)) {
    lane.blocked = Blocked::call;
    return;
  }
  lane.in = step.receives() ? fifo(number, step.source, true) : kNone;
  lane.out = step.sends() ? fifo(number, step.target, false) : kNone;
  if (lane.in != kNone && fifos_[lane.in].arrived == 0) {
    lane.blocked = Blocked::empty;
    return;
  }
  if (lane.out != kNone && fifos_[lane.out].held == load_.credits) {
    lane.blocked = Blocked::full;
    return;
  }
  lane.bytes = bytes_in_pass(windows_, schedules_[lane.rank].chunks.parts, step, lane.pass);
  if (lane.in != kNone) --fifos_[lane.in].arrived;
  if (lane.out != kNone) {
    Fifo& out = fifos_[lane.out];
    ++out.held;
    if (lane.bytes >= out.route.lent_bytes) ++out.lent;
  }
  ranks_[lane.rank].ready.emplace_back(number, cost_us(lane, step));
  const std::uint32_t core = cores_.core_of(lane.rank);
  if (!network_.threads) return run_next(lane.rank, now);
  if (!cores_.idle(core)) return;
  const double at = cores_.wake(core, now);
  if (at == now && cores_.holder(core) == lane.rank) return run_next(lane.rank, now);
  schedule_event(at, core, Kind::turn);
}

void Simulation::run_next(std::uint32_t rank, double now) {
  const auto [lane, cost] = ranks_[rank].ready.front();
  ranks_[rank].ready.pop_front();
  cores_.work(cores_.core_of(rank), cost);
  schedule_event(now + cost, lane, Kind::end);
}

/// Who has the core goes on, or passes it on if there is somebody who can use it.
void Simulation::take_turn(std::uint32_t core, double now) {
  const auto has_work = [&](std::uint32_t rank) { return !ranks_[rank].ready.empty(); };
  if (has_work(cores_.holder(core))) return run_next(cores_.holder(core), now);
  if (std::any_of(cores_.ranks(core).begin(), cores_.ranks(core).end(), has_work)) {
    schedule_event(cores_.pass_on(core, now), core, Kind::turn);
  } else {
    cores_.rest(core, now);
  }
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
  messages_[message] = {.fifo = lane.out, .bytes = lane.bytes, .arrival = now};
  cross(message, now);
}

/// The head of the message is before its next link, or has crossed the last. It crosses a link when
/// that is free, and the rest follows it: switches have room for what cannot go on at once.
void Simulation::cross(std::uint32_t index, double now) {
  Message& message = messages_[index];
  Fifo& fifo = fifos_[message.fifo];
  if (message.link == fifo.route.links.size()) {
    // In order: what comes behind has crossed each link after this, and may be a shorter one.
    fifo.last = std::max(fifo.last, message.arrival + fifo.route.crossing_us(message.bytes));
    schedule_event(fifo.last, message.fifo, Kind::arrive);
    if (network_.lanes_copy) schedule_event(message.arrival, fifo.writer, Kind::sent);
    free_messages_.push_back(index);
    return;
  }
  const std::uint32_t link = fifo.route.links[message.link++];
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
      network_.occupied_us(network_.links[link], fifo.route, load_.slice_bytes, message.bytes) /
      share;
  link_free_[link] = from + us;
  link_busy_[link] += us;
  message.arrival = std::max(message.arrival, from + us);
  if (from > now) {
    schedule_event(from, index, Kind::cross);
  } else {
    cross(index, now);
  }
}

void Simulation::unblock(std::uint32_t number, Blocked why, double now) {
  LaneState& lane = lanes_[number];
  if (lane.blocked != why) return;
  lane.blocked = Blocked::no;
  begin(number, now);
}

void Simulation::end(std::uint32_t number, double now) {
  const LaneState& lane = lanes_[number];
  if (lane.out != kNone) send(lane, now);
  if (lane.out == kNone || !network_.lanes_copy) go_on(number, now);
}

/// From a step that has ended to the next.
void Simulation::go_on(std::uint32_t number, double now) {
  LaneState& lane = lanes_[number];
  const std::uint32_t in = lane.in;
  const bool was_lent = in != kNone && lane.bytes >= fifos_[in].route.lent_bytes;
  bool called = false;
  if (++lane.step == steps_of(lane).size()) {
    lane.step = 0;
    lane.pass += load_.copies;
    called = lane.pass >= passes_;
    if (called) {
      lane.pass = lane.copy;
      ++lane.call;
    }
  }
  const auto waiting = std::exchange(lane.waiting, {});
  if (in != kNone) {
    --fifos_[in].held;
    if (was_lent) --fifos_[in].lent;
    if (fifos_[in].writer != number) {
      unblock(fifos_[in].writer, Blocked::full, now);
      unblock(fifos_[in].writer, Blocked::call, now);
    }
  }
  for (const std::uint32_t waiter : waiting) unblock(waiter, Blocked::wait, now);
  if (called) end_call(lane.rank, now);
  if (lane.call < calls_) {
    begin(number, now);
  } else {
    --lanes_left_;
  }
  if (network_.threads) take_turn(cores_.core_of(lane.rank), now);
}

Status Simulation::run() {
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    const LaneState& lane = lanes_[number];
    if (steps_of(lane).empty() || lane.pass >= passes_) continue;
    ++lanes_left_;
    ++ranks_[lane.rank].lanes;
    const double from = disturbance_.start_us.empty() ? 0 : disturbance_.start_us[lane.rank];
    schedule_event(from, number, Kind::begin);
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
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
    const Schedule& schedule = schedules_[lane.rank];
    const bool lost = lane.blocked == Blocked::empty && fifos_[lane.in].lost;
    if (!text.empty() && !lost) continue;
    const Step step = steps_of(lane)[lane.step];
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
  return failed(code, schedules_.front().algorithm + ": " + text);
}

}  // namespace coll
