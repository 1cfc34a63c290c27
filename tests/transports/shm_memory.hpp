// SPDX-License-Identifier: Apache-2.0
// ShmMemory: the segment of a connection without a peer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/shm/shm_connection.hpp"

namespace coll::test {

/// A FIFO over memory of this process.
struct ShmMemory {
  explicit ShmMemory(std::uint32_t credits, std::size_t slot_bytes = 128)
      : layout{slot_bytes, credits},
        pages(layout.segment_bytes() / sizeof(Page) + 1),
        fifo(layout.fifo(pages[0].bytes, 0)) {}

  [[nodiscard]] bool contains(const std::byte* place, std::size_t bytes) const {
    const auto* begin = reinterpret_cast<const std::byte*>(pages.data());
    return place >= begin && place + bytes <= begin + layout.segment_bytes();
  }

  struct alignas(4096) Page {
    std::byte bytes[4096] = {};
  };
  ShmLayout layout;
  std::vector<Page> pages;
  ShmFifo fifo;
};

}  // namespace coll::test
