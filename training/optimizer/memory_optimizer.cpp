// SPDX-License-Identifier: Apache-2.0
// Updates states in place.
#include "memory_optimizer.hpp"

namespace training {

MemoryOptimizer::MemoryOptimizer(Owned owned, Arena& arena)
    : owned_(std::move(owned)),
      states_(*owned_.layout, owned_.shard, owned_.keeps_weights(), arena) {}

void MemoryOptimizer::begin(std::size_t bucket, std::span<const float> weights) {
  if (owned_.keeps_weights()) states_.write(bucket, State::weights, 0, weights);
}

void MemoryOptimizer::update(std::size_t bucket, const Update& update, const void* gradients,
                             void* weights) {
  float* wide = owned_.keeps_weights() ? states_.of(bucket, State::weights).data()
                                       : static_cast<float*>(weights);
  adam_in_tiles(owned_, bucket, update, owned_.range(bucket), gradients, weights,
                {wide, states_.of(bucket, State::first_moment).data(),
                 states_.of(bucket, State::second_moment).data()});
}

void MemoryOptimizer::read(std::size_t bucket, State state, std::size_t first,
                           std::span<float> to) {
  states_.read(bucket, state, first, to);
}

void MemoryOptimizer::write(std::size_t bucket, State state, std::size_t first,
                            std::span<const float> from) {
  states_.write(bucket, state, first, from);
}

void MemoryOptimizer::move_to(const FlatLayout& layout) {
  states_.move_to(layout);
  owned_.layout = &layout;
}

}  // namespace training
