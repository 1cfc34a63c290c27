// SPDX-License-Identifier: Apache-2.0
// Updates tiles on threads of the host.
#include "host_optimizer.hpp"

namespace training {
namespace {

const HostOptions& checked(const HostOptions& options) {
  if (options.adam_threads == 0 || options.tile == 0)
    throw Failure("offload to the host needs at least one thread and tiles of at least one element",
                  Failure::kBadUsage);
  return options;
}

}  // namespace

HostOptimizer::HostOptimizer(Owned owned, Arena& host, DeviceLink& link, HostOptions options)
    : owned_(std::move(owned)),
      options_(checked(options)),
      link_(link),
      states_(*owned_.layout, owned_.shard, true, host),
      staging_(options.adam_threads + 2),
      may_compute_(static_cast<std::ptrdiff_t>(options.adam_threads)),
      left_(owned_.layout->buckets().size()),
      workers_(staging_.size()) {
  for (Staging& staging : staging_) {
    staging.gradients =
        host.take<std::byte>(options.tile * bytes_of(owned_.gradients), Use::staging);
    if (owned_.keeps_weights())
      staging.weights = host.take<std::byte>(options.tile * bytes_of(owned_.weights), Use::staging);
  }
}

void HostOptimizer::begin(std::size_t bucket, std::span<const float> weights) {
  states_.write(bucket, State::weights, 0, weights);
}

void HostOptimizer::update(std::size_t bucket, const Update& update, const void* gradients,
                           void* weights) {
  const std::size_t count = owned_.range(bucket).count;
  {
    const std::lock_guard lock(mutex_);
    left_[bucket] += (count + options_.tile - 1) / options_.tile;
  }
  const auto kept = std::make_shared<const Update>(update);
  for (std::size_t at = 0; at < count; at += options_.tile) {
    const Range part{at, std::min(options_.tile, count - at)};
    workers_.add([=, this](std::size_t worker) {
      update_tile(bucket, *kept, part, gradients, weights, staging_[worker]);
      const std::lock_guard lock(mutex_);
      if (--left_[bucket] == 0) done_.notify_all();
    });
  }
}

void HostOptimizer::update_tile(std::size_t bucket, const Update& update, const Range& part,
                                const void* gradients, void* weights, const Staging& staging) {
  const std::size_t in = bytes_of(owned_.gradients), out = bytes_of(owned_.weights);
  link_.copy(DeviceLink::Way::to_host, staging.gradients.data(),
             static_cast<const std::byte*>(gradients) + part.begin * in, part.count * in);
  const auto of = [&](State state) { return states_.of(bucket, state).data() + part.begin; };
  const Wide wide{of(State::weights), of(State::first_moment), of(State::second_moment)};
  may_compute_.acquire();
  const auto began = WorkLog::begin(options_.work);
  adam_in_tiles(owned_, bucket, update, {owned_.range(bucket).begin + part.begin, part.count},
                staging.gradients.data(), staging.weights.data(), wide);
  constexpr std::size_t kArrays = 3;
  WorkLog::add(options_.work, WorkLog::Kind::adam, kArrays * part.count * sizeof(float), began);
  may_compute_.release();
  const void* result = wide.weights;
  if (owned_.keeps_weights()) result = staging.weights.data();
  link_.copy(DeviceLink::Way::to_device, static_cast<std::byte*>(weights) + part.begin * out,
             result, part.count * out);
}

void HostOptimizer::finish(std::size_t bucket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return left_[bucket] == 0; });
}

void HostOptimizer::read(std::size_t bucket, State state, std::size_t first, std::span<float> to) {
  states_.read(bucket, state, first, to);
}

void HostOptimizer::write(std::size_t bucket, State state, std::size_t first,
                          std::span<const float> from) {
  states_.write(bucket, state, first, from);
}

void HostOptimizer::move_to(const FlatLayout& layout) {
  states_.move_to(layout);
  owned_.layout = &layout;
  left_.assign(layout.buckets().size(), 0);
}

}  // namespace training
