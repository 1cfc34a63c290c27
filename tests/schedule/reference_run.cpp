// SPDX-License-Identifier: Apache-2.0
// Interprets schedules step by step, as the definition says.
#include "reference_run.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

namespace coll {
namespace {

using Numbers = std::vector<std::uint64_t>;
constexpr std::uint32_t kPasses = 2;

std::uint64_t finished(std::uint64_t sum) {
  return sum * 0x9e3779b97f4a7c15U + 12345;
}

/// Where the elements of a buffer are: `base` in the memory of its rank and pass.
struct Buffer {
  std::size_t base = 0;
  std::uint32_t chunks = 0;
};

class Machine {
 public:
  Machine(const samples::Set& set, std::uint32_t credits, std::mt19937_64& random)
      : set_(set), credits_(credits), random_(random), parts_(set.front().chunks.parts) {
    for (std::uint32_t part = 0; part < parts_; ++part) {
      start_.push_back(block_);
      length_.push_back(parts_ - part);  // no two alike, the first the longest
      block_ += length_.back();
    }
    for (const Schedule& schedule : set_) add_rank(schedule);
    late_ = random_() % set_.size();
  }

  ReferenceOutcome run() {
    std::vector<std::size_t> able;
    for (;;) {
      if (!broken_.empty()) return {ReferenceOutcome::Kind::wrong, broken_};
      able.clear();
      bool others = false;
      for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
        if (!can_move(lanes_[lane])) continue;
        able.push_back(lane);
        others |= lanes_[lane].rank != late_;
      }
      if (able.empty()) break;
      if (is_barrier() && others && !entered_) {
        std::erase_if(able, [&](std::size_t lane) { return lanes_[lane].rank == late_; });
      }
      // Now a fair choice, now the first or last in a row: some lanes run far ahead of others.
      if (random_() % 16 == 0) habit_ = random_() % 3;
      const std::size_t pick = habit_ == 0   ? able[random_() % able.size()]
                               : habit_ == 1 ? able.front()
                                             : able.back();
      entered_ |= lanes_[pick].rank == late_;
      move(lanes_[pick]);
      if (is_barrier() && !entered_ && left(lanes_[pick].rank)) {
        return {ReferenceOutcome::Kind::wrong, "a rank left before another entered"};
      }
    }
    if (std::ranges::any_of(lanes_, [](const LaneState& lane) { return lane.pass < kPasses; })) {
      return {ReferenceOutcome::Kind::deadlock, "lanes are stuck"};
    }
    for (const auto& [key, queue] : queues_) {
      if (!queue.empty()) return {ReferenceOutcome::Kind::wrong, "a message is left over"};
    }
    return check();
  }

 private:
  enum class Phase { read, keep, send };
  struct LaneState {
    std::size_t rank = 0, lane = 0;
    std::size_t step = 0, pass = 0;
    Phase phase = Phase::read;
    Numbers value;
  };
  struct RankState {
    Buffer input, output, scratch;
    Numbers memory[kPasses];
    Numbers scratch_memory;
  };
  using QueueKey = std::tuple<std::size_t, std::size_t, std::size_t>;  ///< from, to, lane

  void add_rank(const Schedule& schedule) {
    RankState rank;
    rank.input.chunks = schedule.chunks.input_blocks * parts_;
    rank.output.chunks = schedule.chunks.output_blocks * parts_;
    rank.scratch.chunks = schedule.scratch_chunks;
    const CollectiveSpec& spec = schedule.spec;
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
    if (place.allowed && random_() % 2 == 0) {
      (place.input_inside_output ? rank.input : rank.output).base = place.offset_blocks * block_;
    } else {
      rank.output.base = schedule.chunks.input_blocks * block_;
    }
    for (Numbers& memory : rank.memory) {
      memory.resize((schedule.chunks.input_blocks + schedule.chunks.output_blocks) * block_);
      for (std::uint64_t& number : memory) number = random_();
    }
    rank.scratch_memory.resize(schedule.scratch_chunks * std::size_t{parts_});
    for (std::uint64_t& number : rank.scratch_memory) number = random_();
    ranks_.push_back(rank);
    inputs_.emplace_back();
    for (const Numbers& memory : rank.memory) {
      const auto from = memory.begin() + static_cast<std::ptrdiff_t>(rank.input.base);
      inputs_.back().emplace_back(
          from, from + static_cast<std::ptrdiff_t>(schedule.chunks.input_blocks * block_));
    }
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      lanes_.push_back(
          {.rank = static_cast<std::size_t>(schedule.rank), .lane = lane, .value = {}});
      if (schedule.lanes[lane].empty()) lanes_.back().pass = kPasses;
    }
  }

  [[nodiscard]] bool is_barrier() const {
    return set_.front().spec.collective == Collective::barrier;
  }
  [[nodiscard]] Step step_of(const LaneState& lane) const {
    return set_[lane.rank].lanes[lane.lane][lane.step];
  }
  [[nodiscard]] bool left(std::size_t rank) const {
    return std::ranges::all_of(
        lanes_, [&](const LaneState& lane) { return lane.rank != rank || lane.pass > 0; });
  }
  std::deque<Numbers>& queue(std::size_t from, std::size_t to, std::size_t lane) {
    return queues_[{from, to, lane}];
  }

  bool can_move(const LaneState& lane) {
    if (lane.pass == kPasses) return false;
    const Step step = step_of(lane);
    if (lane.phase == Phase::keep) return true;
    if (lane.phase == Phase::send) {
      return queue(lane.rank, static_cast<std::size_t>(step.target), lane.lane).size() < credits_;
    }
    if (step.wait_lane >= 0) {
      const auto other = std::ranges::find_if(lanes_, [&](const LaneState& l) {
        return l.rank == lane.rank && l.lane == static_cast<std::size_t>(step.wait_lane);
      });
      if (other == lanes_.end()) return false;
      if (other->pass < lane.pass) return false;
      if (other->pass == lane.pass && static_cast<std::int64_t>(other->step) <= step.wait_step) {
        return false;
      }
    }
    return !step.receives() ||
           !queue(static_cast<std::size_t>(step.source), lane.rank, lane.lane).empty();
  }

  void move(LaneState& lane) {
    const Step step = step_of(lane);
    switch (lane.phase) {
      case Phase::read:
        read(lane, step);
        lane.phase = Phase::keep;
        return;
      case Phase::keep:
        if (step.into.present()) place(lane, step.into, step.count, &lane.value);
        lane.phase = Phase::send;
        if (step.sends()) return;
        break;
      case Phase::send:
        queue(lane.rank, static_cast<std::size_t>(step.target), lane.lane).push_back(lane.value);
        break;
    }
    lane.phase = Phase::read;
    if (++lane.step < set_[lane.rank].lanes[lane.lane].size()) return;
    lane.step = 0;
    ++lane.pass;
  }

  void read(LaneState& lane, const Step& step) {
    if (step.receives()) {
      auto& from = queue(static_cast<std::size_t>(step.source), lane.rank, lane.lane);
      lane.value = std::move(from.front());
      from.pop_front();
      const Operand& named = step.into.present() ? step.into : step.with;
      std::size_t expected = 0;
      for (std::uint32_t i = 0; i < step.count; ++i)
        expected += length_[(named.chunk + i) % parts_];
      if (lane.value.size() != expected) broken_ = "a message of another length than expected";
    } else {
      lane.value.clear();
      if (step.from.present()) lane.value = fetch(lane, step.from, step.count);
    }
    if (step.with.present() && broken_.empty()) {
      const Numbers with = fetch(lane, step.with, step.count);
      if (with.size() != lane.value.size()) {
        broken_ = "operands of different length";
        return;
      }
      for (std::size_t i = 0; i < with.size(); ++i) lane.value[i] += with[i];
    }
    if (step.finish) {
      for (std::uint64_t& number : lane.value) number = finished(number);
    }
  }

  Numbers fetch(LaneState& lane, const Operand& operand, std::uint32_t count) {
    Numbers numbers;
    each_chunk(lane, operand, count, [&](std::uint64_t* data, std::size_t length) {
      numbers.insert(numbers.end(), data, data + length);
    });
    return numbers;
  }

  void place(LaneState& lane, const Operand& operand, std::uint32_t count, Numbers* value) {
    std::size_t at = 0;
    each_chunk(lane, operand, count, [&](std::uint64_t* data, std::size_t length) {
      for (std::size_t i = 0; i < length && at < value->size(); ++i) data[i] = (*value)[at++];
    });
    if (at != value->size()) broken_ = "a value that does not fit its place";
  }

  template <class Use>
  void each_chunk(LaneState& lane, const Operand& operand, std::uint32_t count, Use use) {
    RankState& rank = ranks_[lane.rank];
    const Buffer& buffer = operand.space == Space::input    ? rank.input
                           : operand.space == Space::output ? rank.output
                                                            : rank.scratch;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t chunk = operand.chunk + i;
      if (chunk >= buffer.chunks) {
        broken_ = "a chunk outside its buffer";
        return;
      }
      const std::uint32_t part = chunk % parts_;
      if (operand.space == Space::scratch) {
        use(rank.scratch_memory.data() + std::size_t{chunk} * parts_, length_[part]);
      } else {
        use(rank.memory[lane.pass].data() + buffer.base + chunk / parts_ * block_ + start_[part],
            length_[part]);
      }
    }
  }

  ReferenceOutcome check() const {
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const Numbers& memory = ranks_[rank].memory[pass];
        const std::size_t base = ranks_[rank].output.base;
        for (std::size_t i = 0; i < ranks_[rank].output.chunks / parts_ * block_; ++i) {
          const std::optional<std::uint64_t> should = expected(pass, rank, i);
          if (!should || memory[base + i] == *should) continue;
          return {ReferenceOutcome::Kind::wrong, "element " + std::to_string(i) + " of rank " +
                                                     std::to_string(rank) + " is wrong"};
        }
      }
    }
    return {};
  }

  /// Element i of a rank's output, straight from the definition of the operation; none: anything.
  std::optional<std::uint64_t> expected(std::size_t pass, std::size_t rank, std::size_t i) const {
    const CollectiveSpec& spec = set_[rank].spec;
    const auto root = static_cast<std::size_t>(spec.root);
    const auto in = [&](std::size_t from, std::size_t at) { return inputs_[from][pass][at]; };
    const auto sum = [&](std::size_t at) {
      std::uint64_t total = 0;
      for (std::size_t from = 0; from < ranks_.size(); ++from) total += in(from, at);
      return ranks_.size() == 1 ? total : finished(total);
    };
    switch (spec.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        return sum(i);
      case Collective::reduce_scatter:
        return sum(rank * block_ + i);
      case Collective::broadcast:
        return in(root, i);
      case Collective::all_gather:
      case Collective::gather:
        return in(i / block_, i % block_);
      case Collective::scatter:
        return in(root, rank * block_ + i);
      case Collective::all_to_all:
        return in(i / block_, rank * block_ + i % block_);
      case Collective::recv:
        if (set_[root].spec.collective != Collective::send) return {};
        if (set_[root].spec.root != static_cast<Rank>(rank)) return {};
        return in(root, i);
      case Collective::send:
      case Collective::barrier:
        break;
    }
    return {};
  }

  const samples::Set& set_;
  std::uint32_t credits_;
  std::mt19937_64& random_;
  std::uint32_t parts_;
  std::vector<std::size_t> start_, length_;  ///< of each part within a block, in elements
  std::size_t block_ = 0;                    ///< elements of a block
  std::vector<RankState> ranks_;
  std::vector<std::vector<Numbers>> inputs_;  ///< [rank][pass], as they were at the beginning
  std::vector<LaneState> lanes_;
  std::map<QueueKey, std::deque<Numbers>> queues_;
  std::uint64_t habit_ = 0;
  std::size_t late_ = 0;  ///< in a barrier: the rank that enters last
  bool entered_ = false;
  std::string broken_;
};

}  // namespace

ReferenceOutcome reference_run(const samples::Set& set, std::uint32_t credits,
                               std::mt19937_64& random) {
  return Machine(set, credits, random).run();
}

}  // namespace coll
