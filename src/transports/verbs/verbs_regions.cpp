// SPDX-License-Identifier: Apache-2.0
// Ranges registered at all devices, and forgotten.
#include "transports/verbs/verbs_regions.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace coll {

void VerbsRegions::forget_ended() {
  const std::uint64_t ended = held_ranges_ended();
  if (ended == seen_ended_) return;
  seen_ended_ = ended;
  std::erase_if(regions_, [](const Region& one) {
    const std::optional<HeldRange> now = held_range(one.range.begin, 1);
    return !now || now->number != one.range.number;
  });
}

const VerbsRegions::Region& VerbsRegions::add(const HeldRange& range) {
  Region region{range, {}};
  for (const auto& device : devices_) {
    Result<VerbsOwned<ibv_mr>> key =
        device->register_memory(const_cast<std::byte*>(range.begin), range.bytes, 0);
    if (!key.ok()) {
      log(LogLevel::info, "verbs: memory is copied into slots: " + key.status().text());
      region.keys.clear();
      break;
    }
    region.keys.push_back(*std::move(key));
  }
  return regions_.emplace_back(std::move(region));
}

bool VerbsRegions::has(const std::byte* data, std::size_t bytes) {
  forget_ended();
  for (const Region& one : regions_)
    if (one.range.has(data, bytes)) return !one.keys.empty();
  const std::optional<HeldRange> range = held_range(data, bytes);
  return range && !add(*range).keys.empty();
}

std::uint32_t VerbsRegions::key(const std::byte* data, const VerbsDevice& device) const {
  const auto region =
      std::ranges::find_if(regions_, [&](const Region& one) { return one.range.has(data, 1); });
  const auto place =
      std::ranges::find_if(devices_, [&](const auto& one) { return one.get() == &device; });
  return region->keys[static_cast<std::size_t>(place - devices_.begin())]->lkey;
}

}  // namespace coll
