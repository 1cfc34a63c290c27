// SPDX-License-Identifier: Apache-2.0
// What a checkpoint is made of: elements with addresses that do not depend on who wrote them.
//
// An element's address is (state, parameter, index in the whole parameter). Ranks, ZeRO stage and
// splits are not part of it: any layout can write a checkpoint, and any other can read it.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../optimizer/optimizer.hpp"

namespace training {

/// Elements that follow each other in the whole parameter.
struct Piece {
  State state = State::weights;
  std::string parameter;
  std::size_t first = 0, count = 0;
};
inline constexpr std::size_t kStates = 3;
constexpr const char* name_of(State state) {
  return state == State::weights        ? "weights"
         : state == State::first_moment ? "first moment"
                                        : "second moment";
}

/// A parameter as all ranks have it together. A vector has one row.
struct WholeParameter {
  std::string name;
  std::size_t rows = 1, columns = 0;
  [[nodiscard]] std::size_t size() const { return rows * columns; }
};

/// A copy of some pieces, one behind another, which a thread can write while training goes on.
class Snapshot {
 public:
  explicit Snapshot(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    begins_.reserve(pieces_.size() + 1);
    for (const Piece& piece : pieces_) begins_.push_back(begins_.back() + piece.count);
    values_ = std::make_unique_for_overwrite<float[]>(begins_.back());
  }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  /// The values of piece i, to be filled.
  [[nodiscard]] std::span<float> of(std::size_t i) {
    return {values_.get() + begins_[i], pieces_[i].count};
  }
  [[nodiscard]] std::span<const float> values() const { return {values_.get(), begins_.back()}; }

 private:
  std::vector<Piece> pieces_;
  std::vector<std::size_t> begins_ = {0};  ///< and the end of the last
  std::unique_ptr<float[]> values_;
};

}  // namespace training
