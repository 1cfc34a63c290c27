// SPDX-License-Identifier: Apache-2.0
// Counts the copies of each buffer that are under way.
#include "host_activations.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace training {
namespace {

std::array<std::size_t, HostActivations::kBuffers> buffer_sizes(
    const std::vector<std::size_t>& sizes) {
  std::array<std::size_t, HostActivations::kBuffers> largest{};
  for (std::size_t segment = 0; segment < sizes.size(); ++segment) {
    std::size_t& size = largest[segment % HostActivations::kBuffers];
    size = std::max(size, sizes[segment]);
  }
  return largest;
}

}  // namespace

std::size_t HostActivations::device_elements(const std::vector<std::size_t>& sizes) {
  const auto largest = buffer_sizes(sizes);
  return std::accumulate(largest.begin(), largest.end(), std::size_t{0});
}

HostActivations::HostActivations(std::vector<std::size_t> sizes, std::size_t slots, Arena& device,
                                 HostMemory& host)
    : sizes_(std::move(sizes)), places_{0}, link_(host.link) {
  for (const std::size_t size : sizes_) places_.push_back(places_.back() + size);
  const auto largest = buffer_sizes(sizes_);
  for (std::size_t i = 0; i < kBuffers; ++i)
    if (largest[i] > 0) buffers_[i] = device.take<float>(largest[i], Use::activations);
  host_ = host.arena.take<float>(slots * places_.back(), Use::activations);
}

float* HostActivations::on_host(std::size_t slot, std::size_t segment) const {
  return host_.data() + slot * places_.back() + places_[segment];
}

void HostActivations::settle(std::size_t segment) {
  std::unique_lock lock(mutex_);
  copied_.wait(lock, [&] { return copies_[segment % kBuffers] == 0; });
}

void HostActivations::copy(DeviceLink::Way way, std::size_t segment, float* to, const float* from) {
  {
    const std::lock_guard lock(mutex_);
    ++copies_[segment % kBuffers];
  }
  // It allocates nothing, so it cannot fail and leave those who settle() waiting.
  copier_.add([=, this](std::size_t /*worker*/) {
    link_.copy(way, to, from, sizes_[segment] * sizeof(float));
    const std::lock_guard lock(mutex_);
    if (--copies_[segment % kBuffers] == 0) copied_.notify_all();
  });
}

void HostActivations::store(std::size_t slot, std::size_t segment) {
  copy(DeviceLink::Way::to_host, segment, on_host(slot, segment), output(segment));
}

void HostActivations::fetch(std::size_t slot, std::size_t segment) {
  copy(DeviceLink::Way::to_device, segment, output(segment), on_host(slot, segment));
}

void HostActivations::bring_input(std::size_t slot, std::size_t segment) {
  if (segment == 0) return;
  if (segment == sizes_.size()) fetch(slot, segment - 1);  // no segment behind has brought it
  if (segment > 1) fetch(slot, segment - 2);
  settle(segment - 1);
}

}  // namespace training
