// SPDX-License-Identifier: Apache-2.0
// Sorts pieces and makes them disjoint.
#include "piece_index.hpp"

#include <algorithm>

namespace training {

void PieceIndex::add(const Piece& piece, std::size_t shard, std::size_t position) {
  if (piece.count == 0) return;
  extents_[static_cast<std::size_t>(piece.state)][piece.parameter].push_back(
      {piece.first, piece.count, shard, position});
}

void PieceIndex::finish() {
  for (auto& of_state : extents_) {
    for (auto& [name, extents] : of_state) {
      std::ranges::sort(extents, {}, &Extent::first);
      std::vector<Extent> disjoint;
      std::size_t end = 0;
      for (Extent extent : extents) {
        if (extent.end() <= end) continue;
        const std::size_t twice = std::max(end, extent.first) - extent.first;
        extent.first += twice;
        extent.position += twice;
        extent.count -= twice;
        end = extent.end();
        disjoint.push_back(extent);
      }
      extents = std::move(disjoint);
    }
  }
}

const std::vector<Extent>& PieceIndex::of(State state, const std::string& parameter) const {
  static const std::vector<Extent> none;
  const auto& of_state = extents_[static_cast<std::size_t>(state)];
  const auto found = of_state.find(parameter);
  return found == of_state.end() ? none : found->second;
}

std::optional<std::size_t> PieceIndex::first_missing(State state, const std::string& parameter,
                                                     std::size_t size) const {
  std::size_t end = 0;
  for (const Extent& extent : of(state, parameter)) {
    if (extent.first != end) break;
    end = extent.end();
  }
  return end < size ? std::optional(end) : std::nullopt;
}

}  // namespace training
