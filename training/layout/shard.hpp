// SPDX-License-Identifier: Apache-2.0
// Which part of each bucket a rank owns, and where the parameters of that part are.
#pragma once
#include <algorithm>

#include "flat.hpp"

namespace training {

/// A part of a bucket, in elements.
struct Range {
  std::size_t begin = 0, count = 0;
  [[nodiscard]] std::size_t end() const { return begin + count; }
};

/// Rank `rank` of `ranks` owns that part of each bucket. One of one: all ranks own everything.
struct Shard {
  std::size_t rank = 0, ranks = 1;
  [[nodiscard]] Range of(const Bucket& bucket) const {
    const std::size_t count = bucket.size / ranks;
    return {rank * count, count};
  }
  /// Of all buckets.
  [[nodiscard]] std::size_t size(const FlatLayout& layout) const { return layout.size() / ranks; }
};

/// Calls visit(place, range) for each parameter that lies in `range` of its bucket, at least
/// partly; `range` is then that part, from the bucket's begin.
template <class Visit>
void for_each_place(const Bucket& bucket, const Range& range, Visit visit) {
  for (const Place& place : bucket.places) {
    const std::size_t begin = std::max(range.begin, place.offset);
    const std::size_t end = std::min(range.end(), place.offset + place.size);
    if (begin < end) visit(place, Range{begin, end - begin});
  }
}

}  // namespace training
