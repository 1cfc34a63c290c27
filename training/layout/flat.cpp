// SPDX-License-Identifier: Apache-2.0
// Fills buckets with parameters.
#include "flat.hpp"

#include <algorithm>
#include <cstring>

namespace training {
namespace {
std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}
}  // namespace

FlatLayout::FlatLayout(const Sizes& sizes) {
  for (const auto& unit : sizes) places_.emplace_back(unit.size());
}

void FlatLayout::add(std::size_t unit, std::size_t parameter, std::size_t size) {
  Bucket& bucket = buckets_.back();
  bucket.used = round_up(bucket.used, kParameterAlignment);
  places_[unit][parameter] = {buckets_.size() - 1, bucket.places.size()};
  bucket.places.push_back({unit, parameter, buckets_.size() - 1, bucket.used, size});
  bucket.used += size;
}

void FlatLayout::close(std::size_t alignment) {
  Bucket& bucket = buckets_.back();
  bucket.size = round_up(bucket.used, alignment);
  begins_.push_back(begins_.back() + bucket.size);
}

FlatLayout::Order FlatLayout::backward_order(const Sizes& sizes) {
  Order order;
  for (std::size_t unit = sizes.size(); unit-- > 0;)
    for (std::size_t i = sizes[unit].size(); i-- > 0;) order.emplace_back(unit, i);
  return order;
}

FlatLayout FlatLayout::by_bytes(const Sizes& sizes, const Order& order, const BucketLimits& limits,
                                std::size_t alignment) {
  FlatLayout layout(sizes);
  layout.buckets_.emplace_back();
  std::size_t limit = limits.first_bytes;
  for (const auto& [unit, parameter] : order) {
    if (layout.buckets_.back().used * limits.element_bytes >= limit) {
      layout.close(alignment);
      layout.buckets_.emplace_back();
      limit = limits.bytes;
    }
    layout.add(unit, parameter, sizes[unit][parameter]);
  }
  layout.close(alignment);
  return layout;
}

FlatLayout FlatLayout::by_unit(const Sizes& sizes, std::size_t alignment) {
  FlatLayout layout(sizes);
  for (std::size_t unit = sizes.size(); unit-- > 0;) {
    layout.buckets_.emplace_back();
    for (std::size_t i = sizes[unit].size(); i-- > 0;) layout.add(unit, i, sizes[unit][i]);
    layout.close(alignment);
  }
  return layout;
}

std::size_t FlatLayout::largest() const {
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets_) largest = std::max(largest, bucket.size);
  return largest;
}

void move_elements(const FlatLayout& from_layout, const void* from, const FlatLayout& to_layout,
                   void* to, std::size_t bytes) {
  for (const Bucket& bucket : from_layout.buckets()) {
    for (const Place& place : bucket.places) {
      const Place& target = to_layout.place(place.unit, place.parameter);
      std::memcpy(
          static_cast<std::byte*>(to) + (to_layout.begin(target.bucket) + target.offset) * bytes,
          static_cast<const std::byte*>(from) +
              (from_layout.begin(place.bucket) + place.offset) * bytes,
          place.size * bytes);
    }
  }
}

}  // namespace training
