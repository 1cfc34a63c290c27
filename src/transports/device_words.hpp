// SPDX-License-Identifier: Apache-2.0
// The words of a device's port, as the processor uses them.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coll {

/// The words of the slots of one direction at one end, in memory of the host.
class DeviceWords {
 public:
  /// Each has a cache line of its own, as two processors and devices write neighbours.
  static constexpr std::size_t kStride = 64;
  static constexpr std::size_t bytes(std::uint32_t credits) { return credits * kStride; }

  DeviceWords() = default;
  DeviceWords(std::byte* begin, std::uint32_t credits) : begin_(begin), credits_(credits) {}

  [[nodiscard]] bool is_set(std::uint32_t slot) const {
    return word(slot).load(std::memory_order_acquire) == 1;
  }
  void set(std::uint32_t slot) const { word(slot).store(1, std::memory_order_release); }
  void clear(std::uint32_t slot) const { word(slot).store(0, std::memory_order_release); }
  void set_all() const {
    for (std::uint32_t slot = 0; slot < credits_; ++slot) set(slot);
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::uint32_t slot) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(begin_ + slot * kStride));
  }

  std::byte* begin_ = nullptr;
  std::uint32_t credits_ = 0;
};

}  // namespace coll
