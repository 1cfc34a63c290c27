// SPDX-License-Identifier: Apache-2.0
// Sets of ranks, stored as ranges: small for large sets that have few gaps.
#pragma once
#include <vector>

#include "base/types.hpp"

namespace coll {

/// A set of ranks, stored as ranges in ascending order that neither overlap nor touch.
class RankSet {
 public:
  struct Range {
    Rank begin = 0, end = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  RankSet() = default;
  RankSet(Rank begin, Rank end);

  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  /// Whether the sets have a rank in common.
  [[nodiscard]] bool meets(const RankSet& other) const;
  void unite(const RankSet& other);
  /// The set with every rank r replaced by (r + by) modulo `ranks`; 0 <= by < ranks.
  [[nodiscard]] RankSet shifted(Rank by, Rank ranks) const;
  /// The set with every rank r replaced by r xor `with`.
  [[nodiscard]] RankSet exchanged(Rank with) const;
  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  explicit RankSet(std::vector<Range> ranges);
  std::vector<Range> ranges_;
};

}  // namespace coll
