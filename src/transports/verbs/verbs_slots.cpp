// SPDX-License-Identifier: Apache-2.0
// Slots mapped, registered, and messages put together in them.
#include "transports/verbs/verbs_slots.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace coll {

VerbsSlots::~VerbsSlots() {
  regions_.clear();
  if (memory_ != nullptr) munmap(memory_, mapped_);
}

Status VerbsSlots::allocate(std::uint32_t credits, std::size_t slot_bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  credits_ = credits;
  stride_ = kPayloadAt + slot_bytes + 64;  // a stamp behind the longest payload
  mapped_ = bytes();
  void* const memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return system_failure("reserving " + std::to_string(mapped_) + " bytes for slots", errno,
                          "lower COLL_CREDITS or COLL_SLICE_BYTES");
  memory_ = static_cast<std::byte*>(memory);
  if (mapped_ >= kHugePage) madvise(memory_, mapped_, MADV_HUGEPAGE);
  // The device keeps writing to these pages. After a fork they would be the child's, or copies.
  madvise(memory_, mapped_, MADV_DONTFORK);
  return {};
}

Status VerbsSlots::register_at(const VerbsDevice& device) {
  const auto is_known = [&](const Region& one) { return one.device == &device; };
  if (std::ranges::any_of(regions_, is_known)) return {};
  COLL_ASSIGN(
      VerbsOwned<ibv_mr> region,
      device.register_memory(memory_, mapped_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  regions_.push_back({&device, std::move(region)});
  return {};
}

void VerbsSlots::set_hint_out(std::uint64_t message, VerbsHint hint, std::uint64_t secret) const {
  auto* const begin = reinterpret_cast<std::byte*>(&hint);
  hint.check = stamp(begin, offsetof(VerbsHint, check), secret);
  std::memcpy(hint_place(message, true), begin, sizeof hint);
}

VerbsSlots::Whole VerbsSlots::hints_out(std::uint64_t first, std::uint64_t count,
                                        std::uint32_t key) const {
  return {{reinterpret_cast<std::uint64_t>(hint_place(first, true)),
           static_cast<std::uint32_t>(count * sizeof(VerbsHint)), key},
          static_cast<std::uint64_t>(hint_place(first, false) - in(0))};
}

/// A copy of it is checked, since the device may be writing another one there.
std::optional<VerbsHint> VerbsSlots::hint_in(std::uint64_t message, std::uint32_t bytes,
                                             std::uint64_t secret) const {
  VerbsHint hint;
  // Most messages are short, and have none.
  if (bytes == 0 || static_cast<std::uint32_t>(
                        word(hint_place(message, false) + offsetof(VerbsHint, bytes))) != bytes)
    return {};
  auto* const begin = reinterpret_cast<std::byte*>(&hint);
  for (std::size_t at = 0; at < sizeof hint; at += sizeof(std::uint64_t)) {
    const std::uint64_t here = word(hint_place(message, false) + at);
    std::memcpy(begin + at, &here, sizeof here);
  }
  const bool whole =
      hint.bytes == bytes && hint.check == stamp(begin, offsetof(VerbsHint, check), secret);
  return whole ? std::optional(hint) : std::nullopt;
}

const VerbsSlots::Region& VerbsSlots::region_of(const VerbsDevice& device) const {
  const auto is_its = [&](const Region& one) { return one.device == &device; };
  return *std::ranges::find_if(regions_, is_its);
}

std::uint32_t VerbsSlots::local_key(const VerbsDevice& device) const {
  return region_of(device).region->lkey;
}

std::uint32_t VerbsSlots::remote_key(const VerbsDevice& device) const {
  return region_of(device).region->rkey;
}

VerbsSlots::Whole VerbsSlots::finish(std::uint64_t message, std::uint64_t secret, std::uint32_t key,
                                     bool is_lent) const {
  std::byte* const begin = out(message) + kHeaderAt;
  const std::uint32_t payload = header_out(message).bytes;
  std::size_t bytes = sizeof(VerbsHeader) + (is_lent ? 0 : payload);
  if (payload <= kStampedBytes && !is_lent) {
    bytes = sizeof(VerbsHeader) + stamp_at(payload);
    const std::uint64_t last = stamp(begin, bytes, secret);
    std::memcpy(begin + bytes, &last, sizeof last);
    bytes += sizeof last;
  }
  return {{reinterpret_cast<std::uint64_t>(begin), static_cast<std::uint32_t>(bytes), key},
          message % credits_ * stride_ + kHeaderAt};
}

}  // namespace coll
