// SPDX-License-Identifier: Apache-2.0
// The machine that runs schedules on expressions.
#include "schedule/proof/symbolic_run.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "schedule/print.hpp"

namespace coll {

void SymbolicRun::Past::join(const Past& other) {
  depth = std::max(depth, other.depth);
  if (heard != other.heard) heard.unite(other.heard);
}

SymbolicRun::SymbolicRun(std::span<const Schedule> schedules, const Wiring& wiring,
                         Contributions& contributions, std::uint32_t credits, std::uint32_t passes,
                         bool aliased)
    : schedules_(schedules),
      wiring_(wiring),
      contributions_(contributions),
      credits_(credits),
      passes_(passes),
      barrier_(schedules.front().spec.collective == Collective::barrier),
      first_cell_{0},
      state_(wiring.lanes.size()),
      queues_(wiring.fifos.size()),
      sent_(wiring.lanes.size()) {
  for (const Schedule& schedule : schedules_) {
    cells_.emplace_back(schedule, aliased);
    first_cell_.push_back(first_cell_.back() + cells_.back().all);
  }
  content_.resize(first_cell_.back() * passes_, kNothing);
  for (std::uint32_t pass = 0; pass < passes_; ++pass) {
    for (const Schedule& schedule : schedules_) {
      const Cells& cells = cells_[static_cast<std::size_t>(schedule.rank)];
      Content* memory = cells_of(pass, schedule.rank);
      for (std::uint32_t chunk = 0; chunk < schedule.chunks.chunks(Space::input); ++chunk) {
        memory[cells.at({Space::input, chunk})] =
            contributions_.contribution({pass, schedule.rank, chunk});
      }
    }
  }
  if (barrier_) {
    for (std::uint32_t pass = 0; pass < passes_; ++pass) {
      for (const Schedule& schedule : schedules_) {
        heard_.emplace_back(schedule.rank, schedule.rank + 1);
      }
    }
  }
  for (std::uint32_t lane = 0; lane < wiring_.lanes.size(); ++lane) {
    for (const Step& step : steps_of(lane)) {
      if (step.wait_lane < 0) continue;
      const auto other =
          wiring_.lanes[lane].first_lane + static_cast<std::uint32_t>(step.wait_lane);
      for (std::uint32_t pass = 0; pass < passes_; ++pass) {
        marks_[mark(other, static_cast<std::uint32_t>(step.wait_step), pass)];
      }
    }
  }
}

const Lane& SymbolicRun::steps_of(std::uint32_t lane) const {
  const Wiring::LaneEnd& end = wiring_.lanes[lane];
  return schedules_[static_cast<std::size_t>(end.rank)].lanes[end.lane];
}

Content* SymbolicRun::cells_of(std::uint32_t pass, Rank rank) {
  return content_.data() + pass * first_cell_.back() + first_cell_[static_cast<std::size_t>(rank)];
}

StepPlace SymbolicRun::place_of(std::uint32_t lane) const {
  return {wiring_.lanes[lane].rank, wiring_.lanes[lane].lane, state_[lane].step};
}

Content SymbolicRun::output(std::uint32_t pass, Rank rank, std::uint32_t chunk) const {
  const auto at = static_cast<std::size_t>(rank);
  return content_[pass * first_cell_.back() + first_cell_[at] +
                  cells_[at].at({Space::output, chunk})];
}

Rank SymbolicRun::unheard(std::uint32_t pass, Rank rank) const {
  const auto& heard = heard_[pass * schedules_.size() + static_cast<std::size_t>(rank)].ranges();
  const Rank first = heard.front().begin > 0 ? 0 : heard.front().end;
  return first < static_cast<Rank>(schedules_.size()) ? first : kNoRank;
}

void SymbolicRun::wake(std::uint32_t lane) {
  if (state_[lane].listed) return;
  state_[lane].listed = true;
  ready_.push_back(lane);
}

std::uint32_t SymbolicRun::fresh_message() {
  if (free_message_ == Wiring::kNone) {
    messages_.emplace_back();
    return static_cast<std::uint32_t>(messages_.size() - 1);
  }
  return std::exchange(free_message_, messages_[free_message_].next);
}

void SymbolicRun::push(std::uint32_t fifo, std::uint32_t message) {
  Queue& queue = queues_[fifo];
  messages_[message].next = Wiring::kNone;
  (queue.size++ == 0 ? queue.head : messages_[queue.tail].next) = message;
  queue.tail = message;
  const std::uint32_t reader = wiring_.fifos[fifo].reader;
  if (state_[reader].blocked == Blocked::empty) wake(reader);
}

std::uint32_t SymbolicRun::pop(std::uint32_t fifo) {
  Queue& queue = queues_[fifo];
  const std::uint32_t message = queue.head;
  queue.head = messages_[message].next;
  --queue.size;
  const std::uint32_t writer = wiring_.fifos[fifo].writer;
  if (state_[writer].blocked == Blocked::full) wake(writer);
  return message;
}

bool SymbolicRun::may_start(std::uint32_t lane, const Step& step) const {
  if (step.wait_lane < 0) return true;
  const LaneState& other =
      state_[wiring_.lanes[lane].first_lane + static_cast<std::uint32_t>(step.wait_lane)];
  const std::uint32_t pass = state_[lane].pass;
  return other.pass > pass ||
         (other.pass == pass && other.step > static_cast<std::uint32_t>(step.wait_step));
}

/// value_ := what the step makes of its message and its operands; stored where `into` says.
Status SymbolicRun::compute(std::uint32_t lane, const Step& step,
                            const std::vector<Content>* received) {
  const Rank rank = wiring_.lanes[lane].rank;
  const std::uint32_t parts = schedules_[static_cast<std::size_t>(rank)].chunks.parts;
  const Cells& cells = cells_[static_cast<std::size_t>(rank)];
  Content* memory = cells_of(state_[lane].pass, rank);
  value_.resize(step.count);
  const auto unwritten = [&](const Operand& operand, std::uint32_t i) {
    return fault(schedules_, place_of(lane),
                 "reads " + print(Operand{operand.space, operand.chunk + i}) +
                     ", which nothing has been written to");
  };
  // A message is as long as the chunks that its step names; one that is only forwarded, as parts 0
  // to count - 1.
  const Operand& named = step.named();
  const auto other_length = [&](std::uint32_t part, std::uint32_t place) {
    return fault(schedules_, place_of(lane),
                 "puts part " + std::to_string(part) + " of a block in the place of part " +
                     std::to_string(place) + ", which may be shorter");
  };
  for (std::uint32_t i = 0; i < step.count; ++i) {
    Content value = received ? (*received)[i] : memory[cells.at(step.from) + i];
    if (value == kNothing) return unwritten(step.from, i);
    const std::uint32_t part = contributions_.part(value);
    if ((named.chunk + i) % parts != part) return other_length(part, (named.chunk + i) % parts);
    if (step.with.present()) {
      const Content with = memory[cells.at(step.with) + i];
      if (with == kNothing) return unwritten(step.with, i);
      if (contributions_.part(with) != part) return other_length(contributions_.part(with), part);
      value =
          step.swapped ? contributions_.combine(with, value) : contributions_.combine(value, with);
      if (step.finish) value = contributions_.finish(value);
    }
    value_[i] = value;
  }
  if (step.into.present()) std::ranges::copy(value_, memory + cells.at(step.into));
  return {};
}

/// The first half of a step: everything but the sending of the value, which is left in `held`.
Status SymbolicRun::start(std::uint32_t lane, const Step& step, std::uint32_t in) {
  LaneState& state = state_[lane];
  if (step.wait_lane >= 0) {
    const auto other = wiring_.lanes[lane].first_lane + static_cast<std::uint32_t>(step.wait_lane);
    state.past.join(marks_.at(mark(other, static_cast<std::uint32_t>(step.wait_step), state.pass)));
  }
  std::uint32_t message = Wiring::kNone;
  if (step.receives()) {
    message = pop(in);
    const Message& received = messages_[message];
    if (received.chunks.size() != step.count) {
      const Wiring::LaneEnd& writer = wiring_.lanes[wiring_.fifos[in].writer];
      return fault(schedules_, place_of(lane),
                   "gets a message of " + std::to_string(received.chunks.size()) + " chunks, not " +
                       std::to_string(step.count) + ", from " +
                       print(schedules_, {writer.rank, writer.lane, received.step}));
    }
    state.past.join(received.past);
  }
  COLL_TRY(compute(lane, step, step.receives() ? &messages_[message].chunks : nullptr));
  if (!step.sends()) {
    if (message != Wiring::kNone) messages_[message].next = std::exchange(free_message_, message);
    return {};
  }
  if (message == Wiring::kNone) message = fresh_message();
  state.held = message;
  Message& out = messages_[message];
  std::swap(out.chunks, value_);
  out.step = state.step;
  out.past = state.past;
  ++out.past.depth;
  if (state.pass > 0) return {};
  rounds_ = std::max(rounds_, out.past.depth);
  for (const Content content : out.chunks) {
    sent_[lane] = (std::rotl(sent_[lane], 23) ^ content) * 0x9e3779b97f4a7c15U;
  }
  return {};
}

/// A lane enters a pass knowing of no message and of no rank but its own.
void SymbolicRun::begin_pass(std::uint32_t lane) {
  LaneState& state = state_[lane];
  state.past.depth = 0;
  if (!barrier_ || state.pass == passes_) return;
  const Rank rank = wiring_.lanes[lane].rank;
  state.past.heard = RankSet(rank, rank + 1);
}

/// Performs steps of a lane until it is done or blocked.
SymbolicRun::Blocked SymbolicRun::advance(std::uint32_t lane, Status& status) {
  const Lane& steps = steps_of(lane);
  const Wiring::LaneEnd& end = wiring_.lanes[lane];
  LaneState& state = state_[lane];
  if (steps.empty()) state.pass = passes_;
  while (state.pass < passes_) {
    const Step step = steps[state.step];
    const Wiring::Ends& ends = wiring_.steps[end.first_step + state.step];
    if (state.held == Wiring::kNone) {
      if (!may_start(lane, step)) return Blocked::wait;
      if (step.receives() && queues_[ends.in].size == 0) return Blocked::empty;
      status = start(lane, step, ends.in);
      if (!status.ok()) return Blocked::no;
    }
    if (step.sends()) {
      if (queues_[ends.out].size >= credits_) return Blocked::full;
      push(ends.out, std::exchange(state.held, Wiring::kNone));
    }
    if (!marks_.empty()) {
      const auto found = marks_.find(mark(lane, state.step, state.pass));
      if (found != marks_.end()) found->second = state.past;
    }
    if (++state.step < steps.size()) continue;
    if (barrier_) {
      heard_[state.pass * schedules_.size() + static_cast<std::size_t>(end.rank)].unite(
          state.past.heard);
    }
    state.step = 0;
    ++state.pass;
    begin_pass(lane);
  }
  return Blocked::no;
}

Status SymbolicRun::run() {
  COLL_CHECK(credits_ > 0, "a FIFO holds at least one message");
  for (std::uint32_t lane = 0; lane < state_.size(); ++lane) {
    begin_pass(lane);
    wake(lane);
  }
  while (!ready_.empty()) {
    const std::uint32_t lane = ready_.front();
    ready_.pop_front();
    LaneState& state = state_[lane];
    state.listed = false;
    state.blocked = Blocked::no;
    const auto before = std::pair(state.pass, state.step);
    Status status;
    state.blocked = advance(lane, status);
    COLL_TRY(status);
    if (marks_.empty() || before == std::pair(state.pass, state.step)) continue;
    const Wiring::LaneEnd& end = wiring_.lanes[lane];
    const std::size_t lanes = schedules_[static_cast<std::size_t>(end.rank)].lanes.size();
    for (std::uint32_t other = end.first_lane; other < end.first_lane + lanes; ++other) {
      if (state_[other].blocked == Blocked::wait) wake(other);
    }
  }
  return deadlock();
}

/// Nothing moves any more: success if all lanes are done, else who waits for what.
Status SymbolicRun::deadlock() const {
  constexpr int kMost = 8;
  int blocked = 0;
  Rank first = kNoRank;
  std::string report;
  for (std::uint32_t lane = 0; lane < state_.size(); ++lane) {
    const LaneState& state = state_[lane];
    if (state.pass == passes_) continue;
    if (blocked++ == 0) first = wiring_.lanes[lane].rank;
    if (blocked > kMost) continue;
    const Step step = steps_of(lane)[state.step];
    report += "\n  pass " + std::to_string(state.pass) + ", " + print(schedules_, place_of(lane));
    if (state.blocked == Blocked::wait) {
      report += " waits for lane " + std::to_string(step.wait_lane) + " step " +
                std::to_string(step.wait_step);
    } else if (state.blocked == Blocked::empty) {
      report += " waits for a message of rank " + std::to_string(step.source);
    } else {
      report += " waits for a credit of rank " + std::to_string(step.target);
    }
  }
  if (blocked == 0) return {};
  if (blocked > kMost) report += "\n  and " + std::to_string(blocked - kMost) + " more";
  return failed(Code::internal, "deadlock with " + std::to_string(credits_) +
                                    " messages per FIFO, " + std::to_string(blocked) +
                                    " lanes cannot go on:" + report)
      .at_rank(first);
}

}  // namespace coll
