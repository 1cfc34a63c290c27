// SPDX-License-Identifier: Apache-2.0
// Erases from a vector what is over, safely where finding that out can throw.
#pragma once
#include <cstddef>
#include <vector>

namespace coll {

/// Like std::erase_if, for an `over` that works on the element and can throw: then those before are
/// erased, and the others are as they were. (std::erase_if would leave moved-from elements, and
/// some that are over.)
template <class T, class Over>
void erase_over(std::vector<T>& elements, Over over) {
  for (std::size_t i = 0; i < elements.size();) {
    if (over(elements[i])) {
      elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

}  // namespace coll
