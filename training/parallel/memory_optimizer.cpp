// SPDX-License-Identifier: Apache-2.0
// AdamW, tile by tile: the tiles stay in the cache while numbers of 16 bits become f32 and back.
#include "memory_optimizer.hpp"

#include <array>

namespace training {

void adam_on_range(const Owned& owned, std::size_t bucket, const Update& update, const Range& range,
                   const float* gradients, float* weights, float* m, float* v) {
  for_each_place(owned.layout->buckets()[bucket], range, [&](const Place& place, const Range& part) {
    if (!update.skipped.empty() && update.skipped[place.unit][place.parameter]) return;
    AdamStep step = update.step;
    if (!owned.decays[place.unit][place.parameter]) step.decay = 0;
    const std::size_t at = part.begin - range.begin;
    table().adam(step, part.count, gradients + at, weights + at, m + at, v + at);
  });
}

MemoryOptimizer::MemoryOptimizer(Owned owned, Arena& arena)
    : owned_(std::move(owned)), arena_(arena), states_(take(*owned_.layout)) {}

MemoryOptimizer::States MemoryOptimizer::take(const FlatLayout& layout) const {
  const std::size_t size = owned_.shard.size(layout);
  States states;
  if (owned_.keeps_weights()) states.weights = arena_.take<float>(size, Use::optimizer);
  states.first = arena_.take<float>(size, Use::optimizer);
  states.second = arena_.take<float>(size, Use::optimizer);
  return states;
}

std::span<float> MemoryOptimizer::of(std::size_t bucket, State state) const {
  const Block<float>& block = state == State::weights        ? states_.weights
                              : state == State::first_moment ? states_.first
                                                             : states_.second;
  return block.span().subspan(owned_.layout->begin(bucket) / owned_.shard.ranks,
                              owned_.range(bucket).count);
}

void MemoryOptimizer::begin(std::size_t bucket, std::span<const float> weights) {
  if (owned_.keeps_weights()) std::ranges::copy(weights, of(bucket, State::weights).begin());
}

void MemoryOptimizer::update(std::size_t bucket, const Update& update, const void* gradients,
                             void* weights) {
  constexpr std::size_t kTile = 2048;
  std::array<float, kTile> wide;
  const Range range = owned_.range(bucket);
  const auto m = of(bucket, State::first_moment), v = of(bucket, State::second_moment);
  for (std::size_t at = 0; at < range.count; at += kTile) {
    const Range tile{range.begin + at, std::min(kTile, range.count - at)};
    const float* g = static_cast<const float*>(gradients) + at;
    if (owned_.gradients != Format::f32) {
      widen(owned_.gradients, tile.count,
            static_cast<const std::byte*>(gradients) + at * bytes_of(owned_.gradients), wide.data());
      g = wide.data();
    }
    float* w = owned_.keeps_weights() ? of(bucket, State::weights).data() + at
                                      : static_cast<float*>(weights) + at;
    adam_on_range(owned_, bucket, update, tile, g, w, m.data() + at, v.data() + at);
    if (owned_.keeps_weights()) {
      narrow(owned_.weights, tile.count, w,
             static_cast<std::byte*>(weights) + at * bytes_of(owned_.weights));
    }
  }
}

void MemoryOptimizer::read(std::size_t bucket, State state, std::size_t first,
                           std::span<float> to) {
  std::ranges::copy(of(bucket, state).subspan(first, to.size()), to.begin());
}

void MemoryOptimizer::write(std::size_t bucket, State state, std::size_t first,
                            std::span<const float> from) {
  std::ranges::copy(from, of(bucket, state).begin() + static_cast<std::ptrdiff_t>(first));
}

void MemoryOptimizer::move_to(const FlatLayout& layout) {
  States moved = take(layout);
  if (owned_.keeps_weights()) move_elements(*owned_.layout, states_.weights.data(), layout, moved.weights.data());
  move_elements(*owned_.layout, states_.first.data(), layout, moved.first.data());
  move_elements(*owned_.layout, states_.second.data(), layout, moved.second.data());
  states_ = std::move(moved);
  owned_.layout = &layout;
}

}  // namespace training
