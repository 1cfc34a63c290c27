// SPDX-License-Identifier: Apache-2.0
// Softmax of rows, and the pieces of the loss on it (model/loss.hpp puts them together).
//
//   p = e^(x - max) / sum e^(x - max), loss = -log p[target]; dloss/dx = p - [i = target]
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace training::TRAINING_ISA {

/// The largest of `n` elements.
template <class Real>
inline Real largest(std::size_t n, const Real* x) {
  Real most = x[0];
  for (std::size_t i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

/// p = e^((x - most) * factor); returns its sum. `p` may be `x`.
template <class Real>
inline Real exponentials(std::size_t n, Real most, Real factor, const Real* x, Real* p) {
  for (std::size_t i = 0; i < n; ++i) p[i] = exponential<Real>((x[i] - most) * factor);
  return sum_over<Real>(
      n, [&](std::size_t i) { return load(p + i); }, [&](std::size_t i) { return p[i]; });
}

/// p = softmax(x * factor) over the first `used` of `columns`; the others become 0. `p` may be `x`.
template <class Real>
inline void softmax_row(std::size_t used, std::size_t columns, Real factor, const Real* x,
                        Real* p) {
  const Real share = 1 / exponentials<Real>(used, largest(used, x), factor, x, p);
  for (std::size_t i = 0; i < used; ++i) p[i] *= share;
  for (std::size_t i = used; i < columns; ++i) p[i] = 0;
}

/// The largest element of each row.
template <class Real>
void row_maxima(std::size_t rows, std::size_t columns, const Real* x, Real* maxima) {
  for (std::size_t row = 0; row < rows; ++row) maxima[row] = largest(columns, x + row * columns);
}

/// x = e^(x - the row's maximum), and the sums of the rows.
template <class Real>
void row_exponentials(std::size_t rows, std::size_t columns, const Real* maxima, Real* x,
                      Real* sums) {
  for (std::size_t row = 0; row < rows; ++row, x += columns)
    sums[row] = exponentials<Real>(columns, maxima[row], 1, x, x);
}

/// x = the gradient of factor * (summed loss), from what row_exponentials left in `x`, and the sums
/// over all columns. Column 0 is that of target `first`; a row whose target is -1 has none.
template <class Real>
void cross_entropy_backward(std::size_t rows, std::size_t columns, std::size_t first,
                            const std::int32_t* targets, const Real* sums, Real factor, Real* x) {
  for (std::size_t row = 0; row < rows; ++row, x += columns) {
    const Real share = targets[row] < 0 ? 0 : factor / sums[row];
    for (std::size_t i = 0; i < columns; ++i) x[i] *= share;
    const std::size_t own = static_cast<std::size_t>(targets[row]) - first;
    if (targets[row] >= 0 && own < columns) x[own] -= factor;
  }
}

}  // namespace training::TRAINING_ISA
