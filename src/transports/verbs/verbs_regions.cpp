// SPDX-License-Identifier: Apache-2.0
// Ranges registered at all devices, and forgotten.
#include "transports/verbs/verbs_regions.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "sys/cuda/device_memory.hpp"
#include "sys/cuda/primary_context.hpp"
#include "sys/memory/memory_places.hpp"

namespace coll {
namespace {

/// Its bytes may pass each other on the way over the bus, which is faster on some machines. Slots
/// have no such freedom: a message that is found by its stamp is consumed before its completion,
/// and what is still on its way could land on the slot's next message.
constexpr int kAccess = IBV_ACCESS_RELAXED_ORDERING;
/// By this end's device, for peers. What lands is used after its completion, which passes no bytes.
constexpr int kWritten = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

void VerbsRegions::forget_ended() {
  const std::uint64_t ended = held_ranges_ended();
  if (ended == seen_ended_) return;
  seen_ended_ = ended;
  std::erase_if(regions_, [](const VerbsRegion& one) {
    const std::optional<HeldRange> now = held_range(one.range.begin, 1);
    return !now || now->number != one.range.number;
  });
}

/// Memory that the program may only read is refused for writes, but not for want of room.
void VerbsRegions::register_of_host(VerbsRegion& region) const {
  auto* const begin = const_cast<std::byte*>(region.range.begin);
  for (const auto& device : devices_) {
    auto key = device->register_memory(begin, region.range.bytes, kAccess | kWritten);
    if (!key.ok() && key.status().code() != Code::out_of_resources) {
      region.writable = false;
      key = device->register_memory(begin, region.range.bytes, kAccess);
    }
    if (!key.ok())
      log(LogLevel::info, "verbs: memory is copied from and to slots: " + key.status().text());
    region.keys.push_back(key.ok() ? *std::move(key) : VerbsOwned<ibv_mr>(nullptr, nullptr));
  }
}

/// By a dma-buf; where that is not to be had, by its address, which a device understands if the
/// kernel has nvidia-peermem. Past a host bridge the way from device to device is slow, or closed.
/// Peers may not write there: a GPU need not see what another device has written to its memory.
void VerbsRegions::register_of_gpu(VerbsRegion& region, int gpu) const {
  region.writable = false;
  auto* const begin = const_cast<std::byte*>(region.range.begin);
  const std::size_t bytes = region.range.bytes;
  const auto dma_buf = [&]() -> Result<Fd> {
    COLL_ASSIGN(const PrimaryContext primary, PrimaryContext::retain(*loaded_cuda_driver(), gpu));
    return export_dma_buf(primary.context, cuda_address(begin), bytes);
  }();
  for (const auto& device : devices_) {
    VerbsOwned<ibv_mr>& key = region.keys.emplace_back(nullptr, nullptr);
    if (!device->beside_gpu()) continue;
    const auto by_dma_buf = [&]() -> Result<VerbsOwned<ibv_mr>> {
      if (!dma_buf.ok()) return dma_buf.status();
      return device->register_dma_buf(dma_buf->get(), cuda_address(begin), bytes, 0);
    };
    Result<VerbsOwned<ibv_mr>> made = by_dma_buf();
    if (!made.ok()) {
      const std::string why = made.status().text();
      made = device->register_memory(begin, bytes, 0);
      if (!made.ok())
        log(LogLevel::info,
            "verbs: memory of a GPU is not reached: " + why + "; " + made.status().text());
    }
    if (made.ok()) key = *std::move(made);
  }
}

const VerbsRegion& VerbsRegions::add(const HeldRange& range) {
  VerbsRegion region{range, {}};
  const MemoryPlace place = place_of_memory(range.begin);
  if (place.kind == MemoryKind::device) {
    register_of_gpu(region, place.device);
  } else {
    register_of_host(region);
  }
  return regions_.emplace_back(std::move(region));
}

const VerbsRegion* VerbsRegions::find(const std::byte* data, std::size_t bytes, Devices devices) {
  forget_ended();
  const auto has = [&](const VerbsRegion& one) { return one.range.has(data, bytes); };
  const auto known = std::ranges::find_if(regions_, has);
  const VerbsRegion* region = known == regions_.end() ? nullptr : &*known;
  if (region == nullptr) {
    const std::optional<HeldRange> range = held_range(data, bytes);
    if (!range) return nullptr;
    region = &add(*range);
  }
  const bool reached = std::ranges::all_of(devices, [&](const VerbsDevice* device) {
    return region->keys[index_of(*device)] != nullptr;
  });
  return reached ? region : nullptr;
}

const ibv_mr& VerbsRegions::at(const std::byte* data, const VerbsDevice& device) const {
  const auto region = std::ranges::find_if(
      regions_, [&](const VerbsRegion& one) { return one.range.has(data, 1); });
  return *region->keys[index_of(device)];
}

std::size_t VerbsRegions::index_of(const VerbsDevice& device) const {
  const auto place =
      std::ranges::find_if(devices_, [&](const auto& one) { return one.get() == &device; });
  return static_cast<std::size_t>(place - devices_.begin());
}

}  // namespace coll
