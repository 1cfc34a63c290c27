// SPDX-License-Identifier: Apache-2.0
// Sets of ranks that are few ranges, whatever their size.
#pragma once
#include <vector>

#include "base/types.hpp"

namespace coll {

/// A set of ranks, kept as disjoint ranges in ascending order that do not touch.
class RankSet {
 public:
  struct Range {
    Rank begin = 0, end = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  RankSet() = default;
  RankSet(Rank begin, Rank end);

  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  [[nodiscard]] bool meets(const RankSet& other) const;
  void unite(const RankSet& other);
  /// Every rank r as (r + by) modulo `ranks`; 0 <= by < ranks.
  [[nodiscard]] RankSet shifted(Rank by, Rank ranks) const;
  /// Every rank r as r xor `with`.
  [[nodiscard]] RankSet exchanged(Rank with) const;
  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  explicit RankSet(std::vector<Range> ranges);
  std::vector<Range> ranges_;
};

}  // namespace coll
