// SPDX-License-Identifier: Apache-2.0
// Micro-batches to ranks, by their rows.
#include "balance.hpp"

#include <algorithm>
#include <numeric>

namespace training {
namespace {

Assignment none(std::size_t ranks) {
  return {std::vector<std::vector<std::size_t>>(ranks), std::vector<std::size_t>(ranks)};
}

void give(Assignment& assignment, std::size_t rank, std::size_t batch, std::size_t rows) {
  assignment.batches[rank].push_back(batch);
  assignment.loads[rank] += rows;
}

}  // namespace

std::size_t Assignment::largest() const {
  return loads.empty() ? 0 : std::ranges::max(loads);
}

std::size_t Assignment::total() const {
  return std::accumulate(loads.begin(), loads.end(), std::size_t{0});
}

double Assignment::imbalance() const {
  if (total() == 0) return 1;
  return static_cast<double>(largest()) * static_cast<double>(loads.size()) /
         static_cast<double>(total());
}

Assignment plain_split(std::span<const std::size_t> rows, std::size_t ranks) {
  Assignment split = none(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = rank * rows.size() / ranks; i < (rank + 1) * rows.size() / ranks; ++i)
      give(split, rank, i, rows[i]);
  }
  return split;
}

Assignment balance(std::span<const std::size_t> rows, std::size_t ranks) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rows[a] > rows[b]; });
  Assignment balanced = none(ranks);
  for (const std::size_t batch : order) {
    const auto least = std::ranges::min_element(balanced.loads) - balanced.loads.begin();
    give(balanced, static_cast<std::size_t>(least), batch, rows[batch]);
  }
  for (std::vector<std::size_t>& batches : balanced.batches) std::ranges::sort(batches);
  Assignment plain = plain_split(rows, ranks);
  return balanced.largest() < plain.largest() ? balanced : plain;
}

}  // namespace training
