// SPDX-License-Identifier: Apache-2.0
// Keeps states in an arena, and moves them to other layouts.
#include "optimizer_states.hpp"

namespace training {

OptimizerStates::OptimizerStates(const FlatLayout& layout, Shard shard, bool keeps_weights,
                                 Arena& arena)
    : layout_(&layout), shard_(shard), arena_(&arena) {
  const std::size_t size = shard.size(layout);
  if (keeps_weights) weights_ = arena.take<float>(size, Use::optimizer);
  first_ = arena.take<float>(size, Use::optimizer);
  second_ = arena.take<float>(size, Use::optimizer);
}

const Block<float>& OptimizerStates::block(State state) const {
  switch (state) {
    case State::weights:
      return weights_;
    case State::first_moment:
      return first_;
    case State::second_moment:
      break;
  }
  return second_;
}

std::span<float> OptimizerStates::of(std::size_t bucket, State state) const {
  return block(state).span().subspan(layout_->begin(bucket) / shard_.ranks,
                                     shard_.of(layout_->buckets()[bucket]).count);
}

void OptimizerStates::read(std::size_t bucket, State state, std::size_t first,
                           std::span<float> to) const {
  std::ranges::copy(of(bucket, state).subspan(first, to.size()), to.begin());
}

void OptimizerStates::write(std::size_t bucket, State state, std::size_t first,
                            std::span<const float> from) const {
  std::ranges::copy(from, of(bucket, state).subspan(first, from.size()).begin());
}

void OptimizerStates::move_to(const FlatLayout& layout) {
  OptimizerStates moved(layout, shard_, keeps_weights(), *arena_);
  for (const State state : {State::weights, State::first_moment, State::second_moment}) {
    if (block(state).size() > 0)
      move_elements(*layout_, block(state).data(), layout, moved.block(state).data());
  }
  *this = std::move(moved);
}

}  // namespace training
