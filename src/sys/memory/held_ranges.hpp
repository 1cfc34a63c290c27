// SPDX-License-Identifier: Apache-2.0
// Which memory of this process stays where it is until its owner says otherwise, so that devices
// may be told of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

namespace coll {

/// A block of coll_mem_alloc, or what one coll_mem_register registered.
struct HeldRange {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  ///< never given again

  [[nodiscard]] bool has(const std::byte* data, std::size_t count) const {
    return data >= begin && count <= bytes &&
           data - begin <= static_cast<std::ptrdiff_t>(bytes - count);
  }
};

/// The one that has [data, data + bytes), bytes > 0. Any thread; takes a lock where there is one.
std::optional<HeldRange> held_range(const std::byte* data, std::size_t bytes);

/// How many were ever freed or deregistered: who has told a device of some looks when this has
/// changed which are left. No lock.
std::uint64_t held_ranges_ended();

}  // namespace coll
