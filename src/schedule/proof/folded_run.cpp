// SPDX-License-Identifier: Apache-2.0
// The machine that runs one group of ranks on sets of contributors.
#include "schedule/proof/folded_run.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace coll {

FoldedRun::FoldedRun(std::span<const Schedule> group, const Symmetry& symmetry, PartsOf parts,
                     std::uint32_t credits, std::uint32_t passes, bool aliased)
    : group_(group),
      symmetry_(symmetry),
      parts_(parts),
      all_(group.front().spec.ranks),
      credits_(credits),
      passes_(passes),
      first_cell_{0},
      heard_(passes * group.size()) {
  for (const Schedule& schedule : group_) {
    cells_.emplace_back(schedule, aliased);
    first_cell_.push_back(first_cell_.back() + cells_.back().all);
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      lanes_.push_back({.rank = static_cast<std::size_t>(schedule.rank), .lane = lane});
    }
  }
  sent_.resize(lanes_.size());
  content_.resize(first_cell_.back() * passes_);
  for (std::uint32_t pass = 0; pass < passes_; ++pass) {
    for (std::size_t rank = 0; rank < group_.size(); ++rank) {
      const auto own = static_cast<Rank>(rank);
      heard_[pass * group_.size() + rank] = RankSet(own, own + 1);
      for (std::uint32_t chunk = 0; chunk < group_[rank].chunks.chunks(Space::input); ++chunk) {
        cells_of(pass, rank)[cells_[rank].at({Space::input, chunk})] = {
            .ranks = RankSet(own, own + 1), .chunk = chunk, .pass = pass};
      }
    }
  }
  for (const LaneState& lane : lanes_) {
    for (const Step& step : group_[lane.rank].lanes[lane.lane]) {
      if (step.wait_lane < 0) continue;
      for (std::uint32_t pass = 0; pass < passes_; ++pass) {
        marks_[{lane.rank, static_cast<std::size_t>(step.wait_lane), pass,
                static_cast<std::size_t>(step.wait_step)}];
      }
    }
  }
}

const FoldedContent& FoldedRun::output(std::uint32_t pass, Rank rank, std::uint32_t chunk) const {
  const auto at = static_cast<std::size_t>(rank);
  return content_[pass * first_cell_.back() + first_cell_[at] +
                  cells_[at].at({Space::output, chunk})];
}

FoldedRun::FifoKey FoldedRun::key(std::size_t from, std::size_t to, Rank groups_on,
                                  std::size_t lane) const {
  const std::size_t size = group_.size();
  return ((static_cast<std::size_t>(groups_on) * size + from) * size + to) * 256 + lane;
}

FoldedRun::FifoKey FoldedRun::outgoing(const LaneState& lane, Rank target) const {
  const Rank size = symmetry_.size;
  return key(lane.rank, static_cast<std::size_t>(target % size), symmetry_.groups_to(target),
             lane.lane);
}

FoldedRun::FifoKey FoldedRun::incoming(const LaneState& lane, Rank source) const {
  return key(static_cast<std::size_t>(source % symmetry_.size), lane.rank,
             symmetry_.groups_from(source, all_), lane.lane);
}

/// The message at hand as its sender, a rank of another group, sent it.
FoldedRun::Message FoldedRun::taken(const LaneState& lane, const Step& step) {
  const auto fifo = fifos_.find(incoming(lane, step.source));
  Message sent = std::move(fifo->second.front());
  fifo->second.pop_front();
  if (fifo->second.empty()) fifos_.erase(fifo);

  const Motion motion(symmetry_, parts_, group_[lane.rank],
                      step.source / symmetry_.size * symmetry_.size);
  Message message{.chunks = std::vector<FoldedContent>(sent.chunks.size()), .past = {}};
  const auto count = static_cast<std::uint32_t>(sent.chunks.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    FoldedContent& content = sent.chunks[i];
    content.ranks = motion.ranks(content.ranks);
    content.chunk = motion.chunk(Space::input, content.chunk);
    message.chunks[motion.place_within(count, i)] = std::move(content);
  }
  message.past = {.depth = sent.past.depth, .heard = motion.ranks(sent.past.heard)};
  return message;
}

bool FoldedRun::may_start(const LaneState& lane, const Step& step) const {
  if (step.wait_lane < 0) return true;
  const auto other = std::ranges::find_if(lanes_, [&](const LaneState& candidate) {
    return candidate.rank == lane.rank &&
           candidate.lane == static_cast<std::size_t>(step.wait_lane);
  });
  return other->pass > lane.pass ||
         (other->pass == lane.pass && other->step > static_cast<std::size_t>(step.wait_step));
}

Status FoldedRun::combine(const StepPlace& place, FoldedContent& value,
                          const FoldedContent& with) const {
  if (value.chunk != with.chunk) {
    return fault(group_, place,
                 "combines input chunk " + std::to_string(value.chunk) + " with input chunk " +
                     std::to_string(with.chunk));
  }
  if (value.pass != with.pass) return fault(group_, place, "combines chunks of two passes");
  if (value.finished || with.finished) {
    return fault(group_, place, "goes on with a reduction that is finished");
  }
  if (value.ranks.meets(with.ranks)) {
    return fault(group_, place, "counts a contribution twice");
  }
  value.ranks.unite(with.ranks);
  return {};
}

/// value_ := what the step makes of its message and its operands; stored where `into` says.
Status FoldedRun::compute(const LaneState& lane, const Step& step,
                          std::vector<FoldedContent>* received) {
  const std::uint32_t parts = group_[lane.rank].chunks.parts;
  const Cells& cells = cells_[lane.rank];
  FoldedContent* memory = cells_of(lane.pass, lane.rank);
  const StepPlace place{static_cast<Rank>(lane.rank), lane.lane, lane.step};
  const Operand& named = step.named();
  value_.resize(step.count);
  for (std::uint32_t i = 0; i < step.count; ++i) {
    FoldedContent& value = value_[i];
    value = received ? std::move((*received)[i]) : memory[cells.at(step.from) + i];
    if (value.nothing()) return fault(group_, place, "reads what nothing has been written to");
    if ((named.chunk + i) % parts != value.chunk % parts) {
      return fault(group_, place, "puts a part of a block in the place of another");
    }
    if (step.with.present()) {
      const FoldedContent& with = memory[cells.at(step.with) + i];
      if (with.nothing()) return fault(group_, place, "reads what nothing has been written to");
      COLL_TRY(combine(place, value, with));
      value.finished = step.finish;
    }
  }
  if (step.into.present()) std::ranges::copy(value_, memory + cells.at(step.into));
  return {};
}

/// The first half of a step: everything but the sending of the value, which is left in `held`.
Status FoldedRun::start(LaneState& lane, const Step& step) {
  if (step.wait_lane >= 0) {
    const Past& past = marks_.at({lane.rank, static_cast<std::size_t>(step.wait_lane), lane.pass,
                                  static_cast<std::size_t>(step.wait_step)});
    lane.past.depth = std::max(lane.past.depth, past.depth);
    lane.past.heard.unite(past.heard);
  }
  Message message;
  if (step.receives()) {
    message = taken(lane, step);
    if (message.chunks.size() != step.count) {
      return fault(group_, {static_cast<Rank>(lane.rank), lane.lane, lane.step},
                   "gets a message of " + std::to_string(message.chunks.size()) + " chunks, not " +
                       std::to_string(step.count));
    }
    lane.past.depth = std::max(lane.past.depth, message.past.depth);
    lane.past.heard.unite(message.past.heard);
  }
  COLL_TRY(compute(lane, step, step.receives() ? &message.chunks : nullptr));
  if (!step.sends()) return {};
  lane.holds = true;
  lane.held = {.chunks = value_, .past = lane.past};
  ++lane.held.past.depth;
  if (lane.pass > 0) return {};
  rounds_ = std::max(rounds_, lane.held.past.depth);
  std::uint64_t& sent = sent_[static_cast<std::size_t>(&lane - lanes_.data())];
  const auto mix = [&sent](std::uint64_t number) {
    sent = (std::rotl(sent, 23) ^ number) * 0x9e3779b97f4a7c15U;
  };
  for (const FoldedContent& content : value_) {
    mix(content.chunk * 2 + (content.finished ? 1 : 0));
    for (const auto& [begin, end] : content.ranks.ranges()) {
      mix(static_cast<std::uint64_t>(begin) << 32 | static_cast<std::uint32_t>(end));
    }
  }
  return {};
}

void FoldedRun::begin_pass(LaneState& lane) {
  const auto own = static_cast<Rank>(lane.rank);
  lane.past = {.depth = 0, .heard = RankSet(own, own + 1)};
}

/// Performs steps of a lane until it is done or blocked.
FoldedRun::Blocked FoldedRun::advance(LaneState& lane, Status& status) {
  const Lane& steps = group_[lane.rank].lanes[lane.lane];
  if (steps.empty()) lane.pass = passes_;
  while (lane.pass < passes_) {
    const Step step = steps[lane.step];
    if (!lane.holds) {
      if (!may_start(lane, step)) return Blocked::wait;
      if (step.receives() && !fifos_.contains(incoming(lane, step.source))) return Blocked::empty;
      status = start(lane, step);
      if (!status.ok()) return Blocked::no;
    }
    if (step.sends()) {
      std::deque<Message>& fifo = fifos_[outgoing(lane, step.target)];
      if (fifo.size() >= credits_) return Blocked::full;
      fifo.push_back(std::exchange(lane.held, {}));
      lane.holds = false;
    }
    const auto mark = marks_.find({lane.rank, lane.lane, lane.pass, lane.step});
    if (mark != marks_.end()) mark->second = lane.past;
    if (++lane.step < steps.size()) continue;
    heard_[lane.pass * group_.size() + lane.rank].unite(lane.past.heard);
    lane.step = 0;
    ++lane.pass;
    begin_pass(lane);
  }
  return Blocked::no;
}

Status FoldedRun::run() {
  for (LaneState& lane : lanes_) begin_pass(lane);
  for (bool moved = true; moved;) {
    moved = false;
    for (LaneState& lane : lanes_) {
      const auto before = std::tuple(lane.pass, lane.step, lane.holds);
      Status status;
      lane.blocked = advance(lane, status);
      COLL_TRY(status);
      moved = moved || before != std::tuple(lane.pass, lane.step, lane.holds);
    }
  }
  return ended();
}

/// Nothing moves any more: success if all lanes are done and no message is left.
Status FoldedRun::ended() const {
  for (const LaneState& lane : lanes_) {
    if (lane.pass == passes_) continue;
    const Step step = group_[lane.rank].lanes[lane.lane][lane.step];
    const std::string cause =
        lane.blocked == Blocked::wait    ? "lane " + std::to_string(step.wait_lane)
        : lane.blocked == Blocked::empty ? "a message of rank " + std::to_string(step.source)
                                         : "a credit of rank " + std::to_string(step.target);
    return fault(group_, {static_cast<Rank>(lane.rank), lane.lane, lane.step},
                 "waits for " + cause + " for ever, as in all groups");
  }
  for (const auto& [fifo, messages] : fifos_) {
    if (messages.empty()) continue;
    const auto from = static_cast<Rank>(fifo / 256 / group_.size() % group_.size());
    return fault(from, "sends " + std::to_string(messages.size()) + " messages that nobody takes");
  }
  return {};
}

}  // namespace coll
