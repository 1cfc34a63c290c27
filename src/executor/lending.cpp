// SPDX-License-Identifier: Apache-2.0
// Which messages need no copy.
#include "executor/lending.hpp"

#include <algorithm>
#include <span>

namespace coll {
namespace {

/// The last step that writes each chunk of the output.
class Writes {
 public:
  Writes(const Schedule& schedule, std::size_t own_lane)
      : lane_(&schedule.lanes[own_lane]),
        own_(schedule.chunks.chunks(Space::output), -1),
        others_(own_.size(), false) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
        const Step step = schedule.lanes[lane][index];
        if (step.into.space != Space::output) continue;
        for (std::uint32_t chunk = step.into.chunk; chunk < step.into.chunk + step.count; ++chunk) {
          if (lane == own_lane) {
            own_[chunk] = static_cast<std::ptrdiff_t>(index);
          } else {
            others_[chunk] = true;
          }
        }
      }
    }
  }
  /// Does no step after `index` write a chunk of [first, first + count)? (A step that sends and
  /// writes a chunk leaves it unchanged.) Chunks outside the output are never written.
  [[nodiscard]] bool spare(std::int64_t first, std::uint32_t count, std::size_t index) const {
    const auto size = static_cast<std::int64_t>(own_.size());
    for (std::int64_t at = std::max<std::int64_t>(first, 0); at < std::min(first + count, size);
         ++at) {
      const auto chunk = static_cast<std::size_t>(at);
      if (others_[chunk] || own_[chunk] > static_cast<std::ptrdiff_t>(index)) return false;
    }
    return true;
  }
  /// Before step `index`, is the chunk a result of the reduction, finished here or received whole?
  [[nodiscard]] bool complete(const Operand& chunk, std::size_t index) const {
    if (chunk.space != Space::output) return false;
    const std::ptrdiff_t last = own_[chunk.chunk];
    if (last < 0 || last >= static_cast<std::ptrdiff_t>(index)) return false;
    const Step step = (*lane_)[static_cast<std::size_t>(last)];
    return step.finish || (step.receives() && !step.with.present());
  }

 private:
  const Lane* lane_;
  std::vector<std::ptrdiff_t> own_;
  std::vector<bool> others_;
};

/// Chunks of which a rank sends its part, once, and later receives the result of an all_reduce,
/// while no other step writes them or needs them before. In a call in place both lie in the same
/// memory. The result holds all parts: whoever sends it, to a slot or to that memory, comes after
/// whoever has read the part. That is so because no algorithm has a rank pass another one's part on
/// and keep it too, which it would read for longer than that (lending_test.cpp).
class RoundTrips {
 public:
  explicit RoundTrips(const Schedule& schedule) {
    if (schedule.spec.collective != Collective::all_reduce) return;
    chunks_.resize(schedule.chunks.chunks(Space::output));
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      for (const Step step : schedule.lanes[lane]) {
        for (const Operand& operand : {step.from, step.with, step.into}) {
          if (operand.space != Space::input && operand.space != Space::output) continue;
          for (std::uint32_t i = 0; i < step.count; ++i)
            chunks_[operand.chunk + i].go_on(lane, step, operand);
        }
      }
    }
  }
  /// All of these chunks?
  [[nodiscard]] bool cover(std::uint32_t first, std::uint32_t count) const {
    return !chunks_.empty() &&
           std::ranges::all_of(std::span(chunks_).subspan(first, count),
                               [](const Chunk& chunk) { return chunk.state == Chunk::back; });
  }

 private:
  struct Chunk {
    enum State { here, sent, back, other } state = here;
    std::size_t lane = 0;

    void go_on(std::size_t of_lane, const Step& step, const Operand& operand) {
      const bool keeps_result = step.receives() && !step.with.present() && operand == step.into;
      const bool only_sent = step.sends() && !step.into.present();
      if (state == here && operand.space == Space::input && only_sent) {
        state = sent;
        lane = of_lane;
      } else if (state == sent && lane == of_lane && keeps_result) {
        state = back;
      } else if (state != back || lane != of_lane || operand == step.into) {
        state = other;
      }
    }
  };

  std::vector<Chunk> chunks_;  ///< of the output, and of the input, which has as many
};

/// Where a lent message is read: at the source of a plain send, else where the step keeps the
/// value.
Operand lent_operand(const Step& step) {
  const bool from_source = !step.receives() && !step.with.present();
  return from_source ? step.from : step.into;
}

BoundStep::When lend_of(const Schedule& schedule, const Writes& writes, const RoundTrips& trips,
                        std::size_t index, const Step& step) {
  using enum BoundStep::When;
  const Operand lent = lent_operand(step);
  if (!step.sends() || step.count == 0) return never;
  if (lent.space == Space::output) {
    return writes.spare(lent.chunk, step.count, index) ? always : never;
  }
  if (lent.space != Space::input) return never;
  // The input itself is never written, only the output that it is in a call in place.
  const CollectiveSpec& spec = schedule.spec;
  const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
  if (!place.allowed) return always;
  const std::int64_t alias = place.output_chunk(lent.chunk, schedule.chunks.parts);
  const bool in_place_too =
      writes.spare(alias, step.count, index) || trips.cover(lent.chunk, step.count);
  return in_place_too ? always : if_apart;
}

/// Does the receiver only copy the message? In a reduction that is so for results, else for all.
bool is_complete(const Schedule& schedule, const Writes& writes, std::size_t index,
                 const Step& step) {
  if (!reduces(schedule.spec.collective) || step.finish) return true;
  return step.receives() ? !step.with.present() : writes.complete(lent_operand(step), index);
}

/// Which steps touch each chunk of the output first: before them it may be written to.
class FirstTouches {
 public:
  explicit FirstTouches(const Schedule& schedule)
      : parts_(schedule.chunks.parts),
        place_(in_place(schedule.spec.collective, schedule.spec.ranks, schedule.spec.root,
                        schedule.rank)),
        apart_(schedule.chunks.chunks(Space::output)),
        aliased_(apart_.size()),
        trips_(schedule) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
        const Step step = schedule.lanes[lane][index];
        for (const Operand& operand : {step.from, step.with, step.into})
          touch(operand, step.count, lane, index);
      }
    }
  }
  [[nodiscard]] MayLand lands(const Step& step, std::size_t lane, std::size_t index) const {
    using enum BoundStep::When;
    if (!step.receives() || step.with.present() || step.finish || step.count == 0) return {};
    if (step.into.space != Space::output || !is_first(apart_, step, lane, index)) return {};
    if (!place_.allowed || is_first(aliased_, step, lane, index)) return {.when = always};
    const bool part_first = trips_.cover(step.into.chunk, step.count);
    return {.when = part_first ? always : if_apart, .part_first = part_first};
  }

 private:
  struct Touch {
    std::size_t lane = 0, index = 0;
    bool any = false, several_lanes = false;

    void add(std::size_t of_lane, std::size_t at) {
      several_lanes = several_lanes || (any && lane != of_lane);
      if (any) return;
      any = true;
      lane = of_lane;
      index = at;
    }
  };

  /// Each lane's steps come in their order.
  void touch(const Operand& operand, std::uint32_t count, std::size_t lane, std::size_t index) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (operand.space == Space::output) {
        apart_[operand.chunk + i].add(lane, index);
        aliased_[operand.chunk + i].add(lane, index);
      } else if (operand.space == Space::input && place_.allowed) {
        const std::int64_t chunk = place_.output_chunk(operand.chunk, parts_) + i;
        if (chunk < 0 || chunk >= static_cast<std::int64_t>(aliased_.size())) continue;
        aliased_[static_cast<std::size_t>(chunk)].add(lane, index);
      }
    }
  }
  static bool is_first(const std::vector<Touch>& touches, const Step& step, std::size_t lane,
                       std::size_t index) {
    for (std::uint32_t chunk = step.into.chunk; chunk < step.into.chunk + step.count; ++chunk) {
      const Touch& first = touches[chunk];
      if (first.several_lanes || first.lane != lane || first.index != index) return false;
    }
    return true;
  }

  const std::uint32_t parts_;
  const InPlace place_;
  std::vector<Touch> apart_, aliased_;  ///< by chunk of the output: in calls apart, in place
  const RoundTrips trips_;
};

}  // namespace

std::vector<std::vector<Loan>> find_loans(const Schedule& schedule) {
  std::vector<std::vector<Loan>> loans;
  const RoundTrips trips(schedule);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    const Writes writes(schedule, lane);
    std::vector<Loan>& of_lane = loans.emplace_back();
    for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
      const Step step = schedule.lanes[lane][index];
      of_lane.push_back({lend_of(schedule, writes, trips, index, step),
                         is_complete(schedule, writes, index, step)});
    }
  }
  return loans;
}

std::vector<std::vector<MayLand>> find_landings(const Schedule& schedule) {
  const FirstTouches touches(schedule);
  std::vector<std::vector<MayLand>> landings;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    std::vector<MayLand>& of_lane = landings.emplace_back();
    for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index)
      of_lane.push_back(touches.lands(schedule.lanes[lane][index], lane, index));
  }
  return landings;
}

}  // namespace coll
