// SPDX-License-Identifier: Apache-2.0
// The program's memory that devices may read, and write, where it lies.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "sys/memory/held_ranges.hpp"
#include "transports/verbs/verbs_device.hpp"

namespace coll {

/// A range that all devices were told of.
struct VerbsRegion {
  HeldRange range;
  std::vector<VerbsOwned<ibv_mr>> keys;  ///< as the devices; null of one that has no room for it
  bool writable = true;                  ///< peers may write there
};

/// Of one transport. Only memory from coll_mem_alloc, or that was registered (held_ranges.hpp):
/// devices keep using the pages that they were told of, and of other memory nobody says when it is
/// freed and its addresses are other pages'. A range is registered when it is first used, as a
/// whole, and forgotten once it was freed or deregistered.
class VerbsRegions {
 public:
  /// Of a connection.
  using Devices = std::span<const VerbsDevice* const>;

  /// The devices outlive it.
  explicit VerbsRegions(const std::vector<std::unique_ptr<VerbsDevice>>& devices)
      : devices_(devices) {}

  /// The region that has [data, data + bytes), if these devices reach it; else null. Registers the
  /// range if it was not yet. Valid until the next call.
  const VerbsRegion* find(const std::byte* data, std::size_t bytes, Devices devices);
  /// What the device has of memory that was found.
  [[nodiscard]] const ibv_mr& at(const std::byte* data, const VerbsDevice& device) const;
  /// Takes from the devices what was freed.
  void forget_ended();

 private:
  const VerbsRegion& add(const HeldRange& range);
  void register_of_host(VerbsRegion& region) const;
  void register_of_gpu(VerbsRegion& region, int gpu) const;
  [[nodiscard]] std::size_t index_of(const VerbsDevice& device) const;

  const std::vector<std::unique_ptr<VerbsDevice>>& devices_;
  std::vector<VerbsRegion> regions_;
  std::uint64_t seen_ended_ = 0;
};

}  // namespace coll
