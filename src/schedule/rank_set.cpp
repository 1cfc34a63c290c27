// SPDX-License-Identifier: Apache-2.0
// Ranges of ranks, put together and moved.
#include "schedule/rank_set.hpp"

#include <algorithm>
#include <utility>

namespace coll {

RankSet::RankSet(Rank begin, Rank end) {
  if (begin < end) ranges_.push_back({begin, end});
}

RankSet::RankSet(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  for (const Range& range : ranges) {
    if (!ranges_.empty() && range.begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool RankSet::meets(const RankSet& other) const {
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    if (a->begin < b->end && b->begin < a->end) return true;
    if (a->end < b->end) {
      ++a;
    } else {
      ++b;
    }
  }
  return false;
}

void RankSet::unite(const RankSet& other) {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  *this = RankSet(std::move(all));
}

RankSet RankSet::shifted(Rank by, Rank ranks) const {
  std::vector<Range> moved;
  for (const Range& range : ranges_) {
    const Rank first = static_cast<Rank>((std::int64_t{range.begin} + by) % ranks);
    const Rank before_wrap = std::min(range.end - range.begin, ranks - first);
    moved.push_back({first, first + before_wrap});
    const Rank rest = range.end - range.begin - before_wrap;
    if (rest > 0) moved.push_back({0, rest});
  }
  return RankSet(std::move(moved));
}

RankSet RankSet::exchanged(Rank with) const {
  std::vector<Range> moved;
  for (const Range& range : ranges_) {
    for (Rank begin = range.begin; begin < range.end;) {
      // The largest aligned power of two from here on: it moves in one piece.
      Rank size = 1;
      while (begin % (2 * size) == 0 && begin + 2 * size <= range.end) size *= 2;
      const Rank first = (begin ^ with) / size * size;
      moved.push_back({first, first + size});
      begin += size;
    }
  }
  return RankSet(std::move(moved));
}

}  // namespace coll
