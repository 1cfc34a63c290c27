// SPDX-License-Identifier: Apache-2.0
// One all-reduce for each bucket.
#include "ddp.hpp"

namespace training {

Hook::GradBucket DdpGradients::view(std::size_t bucket, std::byte* data) const {
  return {layout(), bucket, {reinterpret_cast<float*>(data), layout().buckets()[bucket].size}};
}

Pending DdpGradients::start(std::size_t bucket, std::byte* data) {
  if (hook_ != nullptr) return hook_->start(view(bucket, data), traffic());
  return traffic().all_reduce(data, layout().buckets()[bucket].size, format());
}

void DdpGradients::finish_bucket(std::size_t bucket, std::byte* data) {
  if (hook_ == nullptr) return;
  hook_->finish(view(bucket, data), traffic());
  // What lies between parameters stays 0: a hook that codes blocks would carry a NaN on in there.
  auto* values = reinterpret_cast<float*>(data);
  std::size_t end = 0;
  for (const Place& place : layout().buckets()[bucket].places) {
    std::fill(values + end, values + place.offset, 0.0F);
    end = place.offset + place.size;
  }
  std::fill(values + end, values + layout().buckets()[bucket].size, 0.0F);
}

FlatLayout::Order agree_on_order(const FlatLayout::Order& own, collectives::Communicator& comm) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [unit, parameter] : own) {
    numbers.push_back(unit);
    numbers.push_back(parameter);
  }
  value_of(comm.broadcast<std::uint64_t>(numbers, 0));
  FlatLayout::Order order;
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    order.emplace_back(numbers[i], numbers[i + 1]);
  return order;
}

}  // namespace training
