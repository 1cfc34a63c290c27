// SPDX-License-Identifier: Apache-2.0
// The parts of a call that carries many small operations as one.
#pragma once
#include <cstdint>
#include <vector>

namespace coll {

/// What the operation would be given, were this part a call of its own.
struct CallPart {
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
};

/// The call's count is the sum of theirs.
struct CallParts {
  std::vector<CallPart> list;
};

}  // namespace coll
