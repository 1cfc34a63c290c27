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
  if (hook_ != nullptr) hook_->finish(view(bucket, data), traffic());
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
