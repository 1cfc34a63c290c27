// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: steps of a
// part, renamed.
#include "collectives/embed.hpp"

#include "base/check.hpp"

namespace coll {
namespace {

const Window& window_of(const Embedding& embedding, Space space) {
  return space == Space::input    ? embedding.input
         : space == Space::output ? embedding.output
                                  : embedding.scratch;
}

void append(Step step, const Embedding& embedding, LaneBuilder lane) {
  const auto rename = [&](Rank& rank) {
    if (rank != kNoRank) rank = embedding.ranks[static_cast<std::size_t>(rank)];
  };
  rename(step.source);
  rename(step.target);
  if (embedding.empty) {
    if (step.receives() || step.sends()) {
      lane.append({.source = step.source, .target = step.target, .count = 0});
    }
    return;
  }
  if (step.count > 0) {
    std::uint32_t count = 0;
    for (Operand* operand : {&step.from, &step.with, &step.into}) {
      if (!operand->present()) continue;
      const Window& window = window_of(embedding, operand->space);
      const Chunks chunks = window.at(operand->chunk, step.count);
      *operand = {window.space, chunks.first};
      count = chunks.count;
    }
    if (count == 0) return;
    step.count = count;
    if (step.into == step.from && !step.with.present()) step.into = {};
    if (!step.into.present() && !step.sends()) return;
  }
  step.finish = step.finish && embedding.finishes;
  lane.append(step);
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
  for (const Step& step : part.lanes[0]) append(step, embedding, LaneBuilder(lane));
}

}  // namespace coll
