// SPDX-License-Identifier: Apache-2.0
// Reductions that the program brings itself.
#include "reduce/own_reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/copy_bytes.hpp"

namespace coll::reduce {
namespace {

constexpr std::size_t kPiece = 4096;  ///< bytes that are moved to an aligned place at once

void combine_anywhere(const OwnReduction& own, std::size_t element_bytes, const void* left,
                      const void* right, void* result, std::size_t count) {
  const auto unaligned = [&](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % element_bytes != 0;
  };
  if (!unaligned(left) && !unaligned(right) && !unaligned(result)) {
    return own.combine(own.context, left, right, result, count);
  }
  alignas(16) std::byte a[kPiece], b[kPiece];
  const auto* from_left = static_cast<const std::byte*>(left);
  const auto* from_right = static_cast<const std::byte*>(right);
  auto* to = static_cast<std::byte*>(result);
  for (std::size_t done = 0; done < count;) {
    const std::size_t now = std::min(count - done, kPiece / element_bytes);
    const std::size_t at = done * element_bytes, bytes = now * element_bytes;
    std::memcpy(a, from_left + at, bytes);
    std::memcpy(b, from_right + at, bytes);
    own.combine(own.context, a, b, a, now);
    std::memcpy(to + at, a, bytes);
    done += now;
  }
}

}  // namespace

void combine_own(const OwnReduction& own, std::size_t element_bytes, const void* left,
                 const void* right, void* result, void* copy, std::size_t count) {
  combine_anywhere(own, element_bytes, left, right, result, count);
  if (copy == nullptr) return;
  copy_bytes(static_cast<std::byte*>(copy), static_cast<const std::byte*>(result),
             count * element_bytes);
}

}  // namespace coll::reduce
