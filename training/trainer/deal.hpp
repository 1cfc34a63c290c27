// SPDX-License-Identifier: Apache-2.0
// Which rank computes which micro-batches of a step.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace training {

/// The micro-batches of one rank, in their order. In ZeRO-2 and 3 all ranks have equally many
/// turns, and some may have none in the last.
using Turns = std::vector<std::optional<std::size_t>>;

/// Consecutive ones, for reductions at the end of a step: rank r of n has those from r * leaves / n
/// on, rounded up: so rank 0 always has one.
inline Turns deal_in_blocks(std::size_t leaves, std::size_t rank, std::size_t ranks) {
  Turns turns;
  const auto begin = [&](std::size_t of) { return (of * leaves + ranks - 1) / ranks; };
  for (std::size_t i = begin(rank); i < begin(rank + 1); ++i) turns.emplace_back(i);
  return turns;
}

/// One after another, for a reduction after each turn: turn j of rank r is j * n + r.
inline Turns deal_in_turns(std::size_t leaves, std::size_t rank, std::size_t ranks) {
  Turns turns;
  for (std::size_t first = 0; first < leaves; first += ranks) {
    if (first + rank < leaves)
      turns.emplace_back(first + rank);
    else
      turns.emplace_back(std::nullopt);
  }
  return turns;
}

}  // namespace training
