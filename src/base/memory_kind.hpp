// SPDX-License-Identifier: Apache-2.0
// What kind of memory a buffer is.
#pragma once
#include <cstdint>

namespace coll {

enum class MemoryKind : std::uint8_t {
  host,    ///< processors read and write it: ordinary memory, and CUDA's pinned and managed memory
  device,  ///< a GPU's own
};

struct MemoryPlace {
  MemoryKind kind = MemoryKind::host;
  std::int32_t device = -1;  ///< CUDA's number of the GPU in this process

  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

}  // namespace coll
