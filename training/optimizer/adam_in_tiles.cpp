// SPDX-License-Identifier: Apache-2.0
// AdamW, tile by tile: the tiles stay in the cache while numbers of 16 bits become f32 and back.
#include <array>

#include "optimizer.hpp"

namespace training {

void adam_on_range(const Owned& owned, std::size_t bucket, const Update& update, const Range& range,
                   const float* gradients, float* weights, float* m, float* v) {
  for_each_place(owned.layout->buckets()[bucket], range,
                 [&](const Place& place, const Range& part) {
                   if (!update.skipped.empty() && update.skipped[place.unit][place.parameter])
                     return;
                   AdamStep step = update.step;
                   if (!owned.decays[place.unit][place.parameter]) step.decay = 0;
                   const std::size_t at = part.begin - range.begin;
                   table().adam(step, part.count, gradients + at, weights + at, m + at, v + at);
                 });
}

void adam_in_tiles(const Owned& owned, std::size_t bucket, const Update& update, const Range& range,
                   const void* gradients, void* weights, const Wide& wide) {
  constexpr std::size_t kTile = 2048;
  std::array<float, kTile> scratch;
  for (std::size_t at = 0; at < range.count; at += kTile) {
    const Range tile{range.begin + at, std::min(kTile, range.count - at)};
    const std::byte* stored =
        static_cast<const std::byte*>(gradients) + at * bytes_of(owned.gradients);
    const float* g = scratch.data();
    if (owned.gradients == Format::f32) {
      g = reinterpret_cast<const float*>(stored);
    } else {
      widen(owned.gradients, tile.count, stored, scratch.data());
    }
    adam_on_range(owned, bucket, update, tile, g, wide.weights + at, wide.first + at,
                  wide.second + at);
    if (owned.keeps_weights()) {
      narrow(owned.weights, tile.count, wide.weights + at,
             static_cast<std::byte*>(weights) + at * bytes_of(owned.weights));
    }
  }
}

}  // namespace training
