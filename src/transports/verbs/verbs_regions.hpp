// SPDX-License-Identifier: Apache-2.0
// The program's memory that devices may read, and write, where it lies.
#pragma once
#include <memory>
#include <vector>

#include "sys/memory/held_ranges.hpp"
#include "transports/verbs/verbs_device.hpp"

namespace coll {

/// Of one transport. Only memory from coll_mem_alloc, or that coll_mem_register registered: devices
/// keep using the pages that they were told of, and of other memory nobody says when it is freed
/// and its addresses are other pages'. A range is registered when it is first used, as a whole, and
/// forgotten once it was freed or deregistered.
class VerbsRegions {
 public:
  /// The devices outlive it.
  explicit VerbsRegions(const std::vector<std::unique_ptr<VerbsDevice>>& devices)
      : devices_(devices) {}

  /// Can all devices read [data, data + bytes)? Registers its range if they could not yet.
  bool has(const std::byte* data, std::size_t bytes);
  /// Can they, and those of peers, write there too?
  bool has_writable(const std::byte* data, std::size_t bytes);
  /// What the device has of memory that `has` said yes to.
  [[nodiscard]] const ibv_mr& at(const std::byte* data, const VerbsDevice& device) const;

 private:
  struct Region {
    HeldRange range;
    std::vector<VerbsOwned<ibv_mr>> keys;  ///< as the devices; none if they have no room for it
    bool writable = false;
  };
  void forget_ended();
  const Region* find(const std::byte* data, std::size_t bytes);
  const Region& add(const HeldRange& range);
  [[nodiscard]] Status register_at_all(Region& region, int access) const;

  const std::vector<std::unique_ptr<VerbsDevice>>& devices_;
  std::vector<Region> regions_;
  std::uint64_t seen_ended_ = 0;
};

}  // namespace coll
