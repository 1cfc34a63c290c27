// SPDX-License-Identifier: Apache-2.0
// Ranges registered at all devices, and forgotten.
#include "transports/verbs/verbs_regions.hpp"

#include <algorithm>

#include "base/log.hpp"

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
  std::erase_if(regions_, [](const Region& one) {
    const std::optional<HeldRange> now = held_range(one.range.begin, 1);
    return !now || now->number != one.range.number;
  });
}

Status VerbsRegions::register_at_all(Region& region, int access) const {
  region.keys.clear();
  for (const auto& device : devices_) {
    COLL_ASSIGN(VerbsOwned<ibv_mr> key,
                device->register_memory(const_cast<std::byte*>(region.range.begin),
                                        region.range.bytes, access));
    region.keys.push_back(std::move(key));
  }
  return {};
}

/// Memory that the program may only read is refused for writes, but not for want of room.
const VerbsRegions::Region& VerbsRegions::add(const HeldRange& range) {
  Region region{range, {}};
  Status registered = register_at_all(region, kAccess | kWritten);
  region.writable = registered.ok();
  if (!registered.ok() && registered.code() != Code::out_of_resources)
    registered = register_at_all(region, kAccess);
  if (!registered.ok()) {
    log(LogLevel::info, "verbs: memory is copied from and to slots: " + registered.text());
    region.keys.clear();
  }
  return regions_.emplace_back(std::move(region));
}

/// Null if the devices cannot use it.
const VerbsRegions::Region* VerbsRegions::find(const std::byte* data, std::size_t bytes) {
  forget_ended();
  for (const Region& one : regions_)
    if (one.range.has(data, bytes)) return one.keys.empty() ? nullptr : &one;
  const std::optional<HeldRange> range = held_range(data, bytes);
  if (!range) return nullptr;
  const Region& added = add(*range);
  return added.keys.empty() ? nullptr : &added;
}

bool VerbsRegions::has(const std::byte* data, std::size_t bytes) {
  return find(data, bytes) != nullptr;
}

bool VerbsRegions::has_writable(const std::byte* data, std::size_t bytes) {
  const Region* const region = find(data, bytes);
  return region != nullptr && region->writable;
}

const ibv_mr& VerbsRegions::at(const std::byte* data, const VerbsDevice& device) const {
  const auto region =
      std::ranges::find_if(regions_, [&](const Region& one) { return one.range.has(data, 1); });
  const auto place =
      std::ranges::find_if(devices_, [&](const auto& one) { return one.get() == &device; });
  return *region->keys[static_cast<std::size_t>(place - devices_.begin())];
}

}  // namespace coll
