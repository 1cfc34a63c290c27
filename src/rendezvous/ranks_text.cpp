// SPDX-License-Identifier: Apache-2.0
// Runs of ranks put into ranges.
#include "rendezvous/ranks_text.hpp"

namespace coll {

std::string ranks_text(const std::vector<Rank>& ranks) {
  constexpr int kRanges = 12;
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges++ == kRanges) {
      return text + ", … (" + std::to_string(ranks.size()) + " ranks)";
    }
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<Rank> ranks_where(const std::vector<bool>& by_rank) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    if (by_rank[i]) ranks.push_back(static_cast<Rank>(i));
  }
  return ranks;
}

}  // namespace coll
