// SPDX-License-Identifier: Apache-2.0
// The program's memory that devices may read where it lies.
#pragma once
#include <memory>
#include <vector>

#include "sys/memory/held_ranges.hpp"
#include "transports/verbs/verbs_device.hpp"

namespace coll {

/// Of one transport. Only memory from coll_mem_alloc, or that coll_mem_register registered: devices
/// keep reading the pages that they were told of, and of other memory nobody says when it is freed
/// and its addresses are other pages'. A range is registered when it is first sent from, as a
/// whole, and forgotten once it was freed or deregistered.
class VerbsRegions {
 public:
  /// The devices outlive it.
  explicit VerbsRegions(const std::vector<std::unique_ptr<VerbsDevice>>& devices)
      : devices_(devices) {}

  /// Can all devices read [data, data + bytes)? Registers its range if they could not yet.
  bool has(const std::byte* data, std::size_t bytes);
  /// The device's key for memory that `has` said yes to.
  [[nodiscard]] std::uint32_t key(const std::byte* data, const VerbsDevice& device) const;

 private:
  struct Region {
    HeldRange range;
    std::vector<VerbsOwned<ibv_mr>> keys;  ///< as the devices; none if they have no room for it
  };
  void forget_ended();
  const Region& add(const HeldRange& range);

  const std::vector<std::unique_ptr<VerbsDevice>>& devices_;
  std::vector<Region> regions_;
  std::uint64_t seen_ended_ = 0;
};

}  // namespace coll
