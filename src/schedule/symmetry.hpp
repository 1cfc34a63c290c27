// SPDX-License-Identifier: Apache-2.0
// Symmetries: renamings of ranks under which all groups of ranks do the same.
#pragma once
#include <bit>
#include <cstdint>

#include "base/types.hpp"

namespace coll {

/// Consecutive ranks form groups of `size` that all do the same. Nothing changes if all ranks and
/// their peers move by a whole number of groups (`shift`), or if an exclusive or with one number
/// exchanges groups (`exclusive_or`). Then the schedules of one group stand for all: what a rank
/// receives from the group d before it is what it sends to the group d behind it.
struct Symmetry {
  enum class Kind : std::uint8_t { shift, exclusive_or };
  Kind kind = Kind::shift;
  Rank size = 0;

  [[nodiscard]] bool shifts() const { return kind == Kind::shift; }
  /// Whether `ranks` ranks can form such groups.
  [[nodiscard]] bool fits(Rank ranks) const {
    const auto power = [](Rank n) { return std::has_single_bit(static_cast<std::uint32_t>(n)); };
    return size > 0 && ranks % size == 0 && (shifts() || (power(ranks) && power(size)));
  }
  /// Where a rank goes if all ranks move by `by`, a whole number of groups, 0 <= by < ranks.
  [[nodiscard]] Rank moved(Rank rank, Rank by, Rank ranks) const {
    if (!shifts()) return rank ^ by;
    return rank < ranks - by ? rank + by : rank - (ranks - by);
  }
  /// The distance from the sender's group to the receiver's, in groups. groups_to: for a message
  /// that a rank of the first group sends to `target`. groups_from: for a message that it receives
  /// from `source`.
  [[nodiscard]] Rank groups_to(Rank target) const { return target / size; }
  [[nodiscard]] Rank groups_from(Rank source, Rank ranks) const {
    const Rank group = source / size;
    return shifts() && group > 0 ? ranks / size - group : group;
  }
};

}  // namespace coll
