// SPDX-License-Identifier: Apache-2.0
// What a communicator keeps in memory for its calls.
#pragma once
#include <atomic>
#include <cstdint>

namespace coll {

/// Bytes that are reserved, beside those of the scratch pool. Written by the thread that has the
/// engine's seat, read by any.
struct MemoryCounts {
  std::atomic<std::uint64_t> connections{0}, connection_bytes{0};
  std::atomic<std::uint64_t> programs{0}, program_bytes{0};  ///< without their scratch
};

}  // namespace coll
