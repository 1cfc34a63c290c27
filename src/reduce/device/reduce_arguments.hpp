// SPDX-License-Identifier: Apache-2.0
// What a device kernel is given: one value, the same for the host that launches and for the device.
#pragma once
#include <cstdint>
#include <type_traits>

namespace coll::reduce {

/// Of the kernel coll_OP_TYPE: into[i] = left[i] op right[i]. Nothing needs alignment; where all
/// pointers have the same address modulo 16, elements travel 16 bytes at a time. `into` and `copy`
/// may each be `left` or `right` exactly, but may not overlap them otherwise, nor one another.
struct ReduceArguments {
  void* into = nullptr;
  const void* left = nullptr;
  const void* right = nullptr;
  std::uint64_t count = 0;  ///< elements
  void* copy = nullptr;     ///< gets the results too, unless it is null
  std::uint64_t ranks = 1;  ///< what coll_avg_TYPE divides the sum by; others don't read it
};

/// Of the kernel coll_scale_TYPE: into[i] = input[i] * factor. `into` may be `input`.
struct ScaleArguments {
  void* into = nullptr;
  const void* input = nullptr;
  const void* late_factor = nullptr;  ///< read when the kernel runs; null: `factor` counts
  std::uint64_t count = 0;            ///< elements
  std::uint8_t factor[16] = {};       ///< one element
};

// They travel as bytes.
static_assert(std::is_trivially_copyable_v<ReduceArguments> && sizeof(ReduceArguments) == 48);
static_assert(std::is_trivially_copyable_v<ScaleArguments> && sizeof(ScaleArguments) == 48);

}  // namespace coll::reduce
