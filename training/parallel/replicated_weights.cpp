// SPDX-License-Identifier: Apache-2.0
// Waits for the buckets that a unit needs.
#include "replicated_weights.hpp"

namespace training {

ReplicatedWeights::ReplicatedWeights(const FlatLayout& layout, Format format, Shard owned,
                                     Traffic& traffic, Arena& arena)
    : layout_(&layout),
      format_(format),
      owned_(owned),
      traffic_(traffic),
      arena_(arena),
      memory_(arena.take<std::byte>(layout.size() * bytes_of(format), Use::parameters)),
      unit_(layout, format, arena),
      pending_(layout.buckets().size()) {}

std::span<const float* const> ReplicatedWeights::take(std::size_t unit) {
  const auto stored = [&](const Place& place) {
    return data(place.bucket) + place.offset * bytes_of(format_);
  };
  for (std::size_t i = 0; i < layout_->parameters(unit); ++i)
    traffic_.wait(pending_[layout_->place(unit, i).bucket]);
  return unit_.read(*layout_, unit, stored);
}

void* ReplicatedWeights::owned(std::size_t bucket) {
  traffic_.wait(pending_[bucket]);
  return data(bucket) + owned_.of(layout_->buckets()[bucket]).begin * bytes_of(format_);
}

void ReplicatedWeights::updated(std::size_t bucket) {
  if (owned_.ranks == 1) return;
  const Range range = owned_.of(layout_->buckets()[bucket]);
  pending_[bucket] = traffic_.all_gather(data(bucket) + range.begin * bytes_of(format_),
                                         data(bucket), range.count, format_);
}

void ReplicatedWeights::move_to(const FlatLayout& layout) {
  auto moved = arena_.take<std::byte>(layout.size() * bytes_of(format_), Use::parameters);
  move_elements(*layout_, memory_.data(), layout, moved.data(), bytes_of(format_));
  memory_ = std::move(moved);
  layout_ = &layout;
  pending_ = std::vector<Pending>(layout.buckets().size());
}

}  // namespace training
