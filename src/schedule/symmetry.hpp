// SPDX-License-Identifier: Apache-2.0
// schedule/: what a rank does, as a value without bytes. This file: ranks that all do the same.
#pragma once
#include <cstdint>

#include "base/types.hpp"

namespace coll {

/// Ranks in the order of their numbers come in groups of `size` that all do the same: to move a
/// rank and all its peers by a whole number of groups (`shift`), or to exchange groups by an
/// exclusive or with one number (`exclusive_or`), changes nothing. Then one group's schedules stand
/// for all: what a rank gets from the group d before is what it sends to the group d behind.
struct Symmetry {
  enum class Kind : std::uint8_t { shift, exclusive_or };
  Kind kind = Kind::shift;
  Rank size = 0;
};

}  // namespace coll
