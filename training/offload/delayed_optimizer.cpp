// SPDX-License-Identifier: Apache-2.0
// Holds each bucket's weights back until its next update.
#include "delayed_optimizer.hpp"

#include <algorithm>
#include <utility>

namespace training {

DelayedOptimizer::DelayedOptimizer(
    const Owned& owned, Arena& host, DeviceLink& link,
    const std::function<std::unique_ptr<Optimizer>(Owned owned)>& make)
    : owned_(owned), host_(host), link_(link), copies_(take_copies()), inner_(make(owned)) {}

std::vector<DelayedOptimizer::Copies> DelayedOptimizer::take_copies() {
  std::vector<Copies> taken;
  for (std::size_t bucket = 0; bucket < owned_.layout->buckets().size(); ++bucket) {
    const std::size_t count = owned_.range(bucket).count;
    Copies& copies = taken.emplace_back();
    copies.gradients = host_.take<std::byte>(count * bytes_of(owned_.gradients), Use::staging);
    copies.weights = host_.take<std::byte>(count * bytes_of(owned_.weights), Use::staging);
  }
  return taken;
}

void DelayedOptimizer::begin(std::size_t bucket, std::span<const float> weights) {
  forget();
  narrow(owned_.weights, weights.size(), weights.data(), copies_[bucket].weights.data());
  inner_->begin(bucket, weights);
}

/// What is set from outside replaces the results of all updates under way.
void DelayedOptimizer::forget() {
  for (std::size_t bucket = 0; bucket < copies_.size(); ++bucket)
    if (std::exchange(copies_[bucket].device, nullptr) != nullptr) inner_->finish(bucket);
}

void DelayedOptimizer::update(std::size_t bucket, const Update& update, const void* gradients,
                              void* weights) {
  catch_up(bucket);
  Copies& copies = copies_[bucket];
  link_.copy(DeviceLink::Way::to_host, copies.gradients.data(), gradients, copies.gradients.size());
  copies.device = weights;
  copies.delayed = update.delayed;
  inner_->update(bucket, update, copies.gradients.data(), copies.weights.data());
}

void DelayedOptimizer::finish(std::size_t bucket) {
  if (!copies_[bucket].delayed) catch_up(bucket);
}

bool DelayedOptimizer::catch_up(std::size_t bucket) {
  Copies& copies = copies_[bucket];
  if (copies.device == nullptr) return false;
  inner_->finish(bucket);
  link_.copy(DeviceLink::Way::to_device, std::exchange(copies.device, nullptr),
             copies.weights.data(), copies.weights.size());
  return true;
}

void DelayedOptimizer::read(std::size_t bucket, State state, std::size_t first,
                            std::span<float> to) {
  inner_->read(bucket, state, first, to);
}

void DelayedOptimizer::write(std::size_t bucket, State state, std::size_t first,
                             std::span<const float> from) {
  forget();
  inner_->write(bucket, state, first, from);
}

void DelayedOptimizer::move_to(const FlatLayout& layout) {
  inner_->move_to(layout);
  const FlatLayout& old = *std::exchange(owned_.layout, &layout);
  const std::vector<Copies> from = std::exchange(copies_, take_copies());
  // Optimizers that keep no weights find theirs in the copies.
  const std::size_t size = bytes_of(owned_.weights);
  for (const Bucket& bucket : old.buckets()) {
    for (const Place& place : bucket.places) {
      const Place& to = layout.place(place.unit, place.parameter);
      std::copy_n(from[place.bucket].weights.data() + place.offset * size, place.size * size,
                  copies_[to.bucket].weights.data() + to.offset * size);
    }
  }
}

}  // namespace training
