// SPDX-License-Identifier: Apache-2.0
// Which rank computes which micro-batch of a step, so that all have about as many rows.
//
//   Longest processing time first: the micro-batches from the largest to the smallest, each to the
//   rank that has the fewest rows so far.
//
// The largest load is at most 4/3 - 1/(3n) times the least possible on n ranks (Graham 1969,
// "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, theorem 2). It is a
// function of the rows alone, and those are known before a micro-batch is made: all ranks compute
// the same, and none tells another.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace training {

struct Assignment {
  std::vector<std::vector<std::size_t>>
      batches;                     ///< of each rank, in order; they may differ in number
  std::vector<std::size_t> loads;  ///< rows of each rank

  [[nodiscard]] std::size_t largest() const;
  [[nodiscard]] std::size_t total() const;
  /// The largest load over the mean: 1 is balanced.
  [[nodiscard]] double imbalance() const;
};

/// Without balance: each rank takes the next micro-batches, as many as the others or one less.
Assignment plain_split(std::span<const std::size_t> rows, std::size_t ranks);

/// Balanced, or the plain split where that is no worse: the rule is not always best.
Assignment balance(std::span<const std::size_t> rows, std::size_t ranks);

}  // namespace training
