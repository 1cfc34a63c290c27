// SPDX-License-Identifier: Apache-2.0
// Schedules in which all ranks do the same under a renaming.
#pragma once
#include <bit>
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

  [[nodiscard]] bool shifts() const { return kind == Kind::shift; }
  /// Can so many ranks come in such groups?
  [[nodiscard]] bool fits(Rank ranks) const {
    const auto power = [](Rank n) { return std::has_single_bit(static_cast<std::uint32_t>(n)); };
    return size > 0 && ranks % size == 0 && (shifts() || (power(ranks) && power(size)));
  }
  /// Where a rank goes if all of them go `by` ranks, whole groups, 0 <= by < ranks.
  [[nodiscard]] Rank moved(Rank rank, Rank by, Rank ranks) const {
    if (!shifts()) return rank ^ by;
    return rank < ranks - by ? rank + by : rank - (ranks - by);
  }
  /// How many groups on the receiver of a message is from its sender, as a rank of the first group
  /// sees it that sends to a `target`, or hears from a `source`: from that one's point of view.
  [[nodiscard]] Rank groups_to(Rank target) const { return target / size; }
  [[nodiscard]] Rank groups_from(Rank source, Rank ranks) const {
    const Rank group = source / size;
    return shifts() && group > 0 ? ranks / size - group : group;
  }
};

}  // namespace coll
