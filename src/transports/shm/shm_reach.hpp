// SPDX-License-Identifier: Apache-2.0
// How the two ends of a connection reach each other's memory.
#pragma once
#include <cstdint>

#include "sys/memory/shared_segments.hpp"

namespace coll {

/// How a receiver reaches the sender's memory: nothing, until it has said so.
struct ShmReach {
  bool said = false;
  bool copies = false;  ///< by a system call
  bool maps = false;    ///< what lies in the sender's arena
  bool opens = false;   ///< and in its other segments

  [[nodiscard]] std::uint32_t word() const {
    return unsigned{said} | unsigned{copies} << 1 | unsigned{maps} << 2 | unsigned{opens} << 3;
  }
  static ShmReach of(std::uint32_t word) {
    return {(word & 1) != 0, (word & 2) != 0, (word & 4) != 0, (word & 8) != 0};
  }
  [[nodiscard]] bool in_place(const SharedPlace& place) const {
    return place.segment == SharedPlace::kArena ? maps : opens;
  }
};

}  // namespace coll
