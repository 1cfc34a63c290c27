// SPDX-License-Identifier: Apache-2.0
// Gathers the expected units in their order, as far ahead as there are slots.
#include "zero3.hpp"

namespace training {

Zero3Weights::Zero3Weights(const FlatLayout& layout, Format format, std::size_t prefetch,
                           Traffic& traffic, Arena& arena)
    : layout_(layout),
      format_(format),
      owned_{traffic.rank(), traffic.ranks()},
      traffic_(traffic),
      shards_(arena.take<std::byte>(owned_.size(layout) * bytes_of(format), Use::parameters)),
      slots_(1 + prefetch),
      unit_(layout, format, arena) {
  for (Slot& slot : slots_)
    slot.data = arena.take<std::byte>(layout.largest() * bytes_of(format), Use::buckets);
}

void Zero3Weights::expect(std::span<const std::size_t> units) {
  expected_.insert(expected_.end(), units.begin(), units.end());
}

void Zero3Weights::gather_ahead() {
  for (; gathered_ < std::min(slots_.size(), expected_.size()); ++gathered_) {
    const std::size_t bucket = layout_.place(expected_[gathered_], 0).bucket;
    Slot& slot = slots_[(first_slot_ + gathered_) % slots_.size()];
    slot.pending = traffic_.all_gather(owned(bucket), slot.data.data(),
                                       owned_.of(layout_.buckets()[bucket]).count, format_);
  }
}

std::span<const float* const> Zero3Weights::take(std::size_t unit) {
  if (expected_.empty() || expected_.front() != unit)
    throw Failure("unit " + std::to_string(unit) + " is used, but another one was announced");
  gather_ahead();
  Slot& slot = slots_[first_slot_];
  traffic_.wait(slot.pending);
  const auto stored = [&](const Place& place) {
    return slot.data.data() + place.offset * bytes_of(format_);
  };
  return unit_.read(layout_, unit, stored);
}

void Zero3Weights::release(std::size_t /*unit*/) {
  expected_.pop_front();
  --gathered_;
  first_slot_ = (first_slot_ + 1) % slots_.size();
}

void* Zero3Weights::owned(std::size_t bucket) {
  return shards_.data() + layout_.begin(bucket) / owned_.ranks * bytes_of(format_);
}

}  // namespace training
