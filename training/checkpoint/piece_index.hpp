// SPDX-License-Identifier: Apache-2.0
// Which file of a checkpoint holds which elements. Ranks may have written the same elements: one of
// them is enough.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "piece.hpp"

namespace training {

/// Elements of one parameter's state that lie behind each other in one file.
struct Extent {
  std::size_t first = 0, count = 0;
  std::size_t shard = 0, position = 0;  ///< position: elements from the begin of the file's data
  [[nodiscard]] std::size_t end() const { return first + count; }
};

class PieceIndex {
 public:
  void add(const Piece& piece, std::size_t shard, std::size_t position);
  /// Sorts, and drops what is there twice. Before all that follows.
  void finish();

  /// Those of a parameter's state, from the first element to the last; none overlap.
  [[nodiscard]] const std::vector<Extent>& of(State state, const std::string& parameter) const;
  /// The first element of `size` that no file holds.
  [[nodiscard]] std::optional<std::size_t> first_missing(State state, const std::string& parameter,
                                                         std::size_t size) const;

 private:
  std::unordered_map<std::string, std::vector<Extent>> extents_[kStates];
};

}  // namespace training
