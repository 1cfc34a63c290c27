// SPDX-License-Identifier: Apache-2.0
// Walks through the owned part of each bucket, row by row where matrices are split.
#include "owned_pieces.hpp"

#include <algorithm>

namespace training {

std::vector<OwnedPiece> owned_pieces(const FlatLayout& layout, const Shard& shard,
                                     const ParameterTable& parameters, State state) {
  std::vector<OwnedPiece> pieces;
  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    const Range owned = shard.of(bucket);
    for_each_place(bucket, owned, [&](const Place& place, const Range& part) {
      const ParameterInfo& info = parameters[place.unit][place.parameter];
      const std::size_t row = info.split() ? info.columns : info.size();
      const std::size_t before = pieces.size();
      for (std::size_t at = part.begin; at < part.end();) {
        const std::size_t i = at - place.offset;
        const std::size_t count = std::min(row - i % row, part.end() - at);
        const std::size_t first = info.whole_index(i);
        if (pieces.size() > before &&
            pieces.back().piece.first + pieces.back().piece.count == first) {
          pieces.back().piece.count += count;
        } else {
          pieces.push_back({b, at - owned.begin, {state, info.name, first, count}});
        }
        at += count;
      }
    });
  }
  return pieces;
}

WholeParameter whole(const ParameterInfo& parameter) {
  const std::size_t rows = parameter.split() ? parameter.slice.rows : parameter.rows;
  const std::size_t columns = parameter.split() ? parameter.slice.columns : parameter.columns;
  return columns == 1 ? WholeParameter{parameter.name, 1, rows}
                      : WholeParameter{parameter.name, rows, columns};
}

}  // namespace training
