// SPDX-License-Identifier: Apache-2.0
// Reductions that the program brings itself.
#pragma once
#include <cstddef>

namespace coll::reduce {

/// result[i] = left[i] op right[i], of `count` elements. `result` may be `left` or `right`.
struct OwnReduction {
  using Combine = void (*)(void* context, const void* left, const void* right, void* result,
                           std::size_t count);
  Combine combine = nullptr;
  void* context = nullptr;
};

/// Applies it to elements of `element_bytes` anywhere in memory; the function sees only elements
/// that are aligned to their size. `copy` gets the result too, where it is not null.
void combine_own(const OwnReduction& own, std::size_t element_bytes, const void* left,
                 const void* right, void* result, void* copy, std::size_t count);

}  // namespace coll::reduce
