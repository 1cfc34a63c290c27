// SPDX-License-Identifier: Apache-2.0
// The words algorithms are written in, as steps.
#include "schedule/builder.hpp"

#include <optional>
#include <utility>

namespace coll {
namespace {

/// The strides that lead from one iteration's steps to the next one's; none if none do.
std::optional<std::vector<Stride>> strides_between(const std::vector<Step>& first,
                                                   const std::vector<Step>& next) {
  if (first.size() != next.size()) return {};
  std::vector<Stride> strides;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::optional<Stride> stride = stride_between(first[i], next[i]);
    if (!stride) return {};
    strides.push_back(*stride);
  }
  return strides;
}

/// Is `later` what `times` strides make of `first`?
bool leads_to(const std::vector<Step>& first, const std::vector<Stride>& strides, Rank times,
              const std::vector<Step>& later) {
  if (first.size() != later.size()) return false;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (moved(first[i], strides[i], static_cast<std::uint32_t>(times)) != later[i]) return false;
  }
  return true;
}

}  // namespace

void LaneBuilder::repeat(Rank first, Rank end, const std::function<void(Rank)>& body) {
  const auto iteration = [&](Rank k) {
    const std::size_t before = lane_->size();
    body(k);
    return lane_->take_from(before);
  };
  while (first < end) {
    std::vector<Step> steps = iteration(first);
    std::optional<std::vector<Stride>> strides;
    if (first + 1 < end) strides = strides_between(steps, iteration(first + 1));
    if (!strides) {
      for (const Step& step : steps) append(step);
      ++first;
      continue;
    }
    // As far as the line leads: what has left it does not come back.
    Rank on = first + 1;
    for (Rank off = end; off - on > 1;) {
      const Rank middle = on + (off - on) / 2;
      const bool still = leads_to(steps, *strides, middle - first, iteration(middle));
      (still ? on : off) = middle;
    }
    const Rank times = on + 1 - first;
    lane_->append(std::move(steps), *std::move(strides), static_cast<std::uint32_t>(times));
    first += times;
  }
}

Step& LaneBuilder::copy(Operand from, Operand into, std::uint32_t count) {
  return append({.from = from, .into = into, .count = count});
}

Step& LaneBuilder::send(Operand from, Rank target, std::uint32_t count) {
  return append({.target = target, .from = from, .count = count});
}

Step& LaneBuilder::receive(Rank source, Operand into, std::uint32_t count) {
  return append({.source = source, .into = into, .count = count});
}

Step& LaneBuilder::copy_send(Operand from, Operand into, Rank target, std::uint32_t count) {
  return append({.target = target, .from = from, .into = into, .count = count});
}

Step& LaneBuilder::receive_send(Rank source, Operand into, Rank target, std::uint32_t count) {
  return append({.source = source, .target = target, .into = into, .count = count});
}

Step& LaneBuilder::forward(Rank source, Rank target, std::uint32_t count) {
  return append({.source = source, .target = target, .count = count});
}

Step& LaneBuilder::reduce(Operand a, Operand b, Operand into, std::uint32_t count) {
  return append({.from = a, .with = b, .into = into, .count = count});
}

Step& LaneBuilder::receive_reduce(Rank source, Operand with, Operand into, std::uint32_t count) {
  return append({.source = source, .with = with, .into = into, .count = count});
}

Step& LaneBuilder::receive_reduce_send(Rank source, Operand with, Rank target,
                                       std::uint32_t count) {
  return append({.source = source, .target = target, .with = with, .count = count});
}

Step& LaneBuilder::receive_reduce_copy_send(Rank source, Operand with, Operand into, Rank target,
                                            std::uint32_t count) {
  return append({.source = source, .target = target, .with = with, .into = into, .count = count});
}

Step& LaneBuilder::signal(Rank target) {
  return append({.target = target, .count = 0});
}

Step& LaneBuilder::await(Rank source) {
  return append({.source = source, .count = 0});
}

Schedule start_schedule(std::string algorithm, const CollectiveSpec& spec, Rank rank,
                        std::uint32_t parts, std::uint32_t lanes, std::uint32_t scratch_chunks) {
  const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, rank);
  return {.algorithm = std::move(algorithm),
          .spec = spec,
          .rank = rank,
          .chunks = {.input_blocks = shape.input, .output_blocks = shape.output, .parts = parts},
          .scratch_chunks = scratch_chunks,
          .lanes = std::vector<Lane>(lanes)};
}

}  // namespace coll
