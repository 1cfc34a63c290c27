// SPDX-License-Identifier: Apache-2.0
// Puts a part's schedule into a larger one, under other ranks and chunks.
#include "collectives/hierarchical/embed.hpp"

#include <optional>

#include "base/check.hpp"

namespace coll {
namespace {

const EmbeddedSpace& space_of(const Embedding& embedding, Space space) {
  return space == Space::input    ? embedding.input
         : space == Space::output ? embedding.output
                                  : embedding.scratch;
}

/// The step in the whole; none where it has nothing to do.
std::optional<Step> renamed(Step step, const Embedding& embedding) {
  const auto rename = [&](Rank& rank) {
    if (rank != kNoRank) rank = embedding.ranks[static_cast<std::size_t>(rank)];
  };
  rename(step.source);
  rename(step.target);
  if (embedding.empty) {
    if (!step.receives() && !step.sends()) return {};
    return Step{.source = step.source, .target = step.target, .count = 0};
  }
  if (step.count > 0) {
    std::uint32_t count = 0;
    for (Operand* operand : {&step.from, &step.with, &step.into}) {
      if (!operand->present()) continue;
      const EmbeddedSpace& space = space_of(embedding, operand->space);
      const Chunks chunks = space.at(operand->chunk, step.count);
      *operand = {space.space, chunks.first};
      count = chunks.count;
    }
    if (count == 0) return {};
    step.count = count;
    if (step.into == step.from && !step.with.present()) step.into = {};
    if (!step.into.present() && !step.sends()) return {};
  }
  step.finish = step.finish && embedding.finishes;
  return step;
}

/// Lets the last step of a lane also send what it leaves in a chunk, if `step` would do just that.
bool join(Lane& lane, const Step& step) {
  if (lane.empty() || lane.repeats().back().times > 1 || step.receives() || !step.sends() ||
      step.with.present() || step.into.present() || step.wait_lane >= 0) {
    return false;
  }
  const Step last = lane[lane.size() - 1];
  if (last.sends() || last.count != step.count || last.into != step.from) return false;
  lane.take_from(lane.size() - 1);
  lane.append(last).target = step.target;
  return true;
}

}  // namespace

Where stretched(std::uint32_t base, std::uint32_t width) {
  return [=](std::uint32_t chunk, std::uint32_t count) {
    return Chunks{base + chunk * width, count * width};
  };
}

Where blocks(const std::vector<std::uint32_t>& bounds, std::uint32_t base, std::uint32_t first) {
  return [&bounds, base, first](std::uint32_t chunk, std::uint32_t count) {
    const auto number = static_cast<std::uint32_t>(bounds.size() - 1);
    const auto place = [&](std::uint32_t block) {  // of one that may be after the last
      return bounds[block % number] + block / number * bounds.back() - bounds[first];
    };
    const std::uint32_t begin = place(first + chunk);
    return Chunks{base + begin, place(first + chunk + count) - begin};
  };
}

void embed(const Schedule& part, const Embedding& embedding, Lane& lane) {
  COLL_CHECK(part.lanes.size() == 1, "a part has one lane");
  bool may_join = embedding.joins;
  for (const Lane::Repeat& repeat : part.lanes[0].repeats()) {
    const auto iteration = [&](Rank times) {
      for (std::size_t i = 0; i < repeat.body.size(); ++i) {
        const auto index = static_cast<std::size_t>(times) * repeat.body.size() + i;
        const std::optional<Step> step = renamed(repeat.at(index), embedding);
        if (step && !(may_join && join(lane, *step))) lane.append(*step);
        may_join = may_join && !step;
      }
    };
    const auto times = static_cast<Rank>(repeat.times);
    if (embedding.even && times > 1) {
      may_join = false;
      LaneBuilder(lane).repeat(0, times, iteration);
    } else {
      for (Rank k = 0; k < times; ++k) iteration(k);
    }
  }
}

}  // namespace coll
