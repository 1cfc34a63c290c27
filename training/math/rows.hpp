// SPDX-License-Identifier: Apache-2.0
// What layers do with whole rows.
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace training::TRAINING_ISA {

/// Every row of `y` becomes `bias`.
template <class Real>
void fill_rows(std::size_t rows, std::size_t columns, const Real* bias, Real* y) {
  for (std::size_t row = 0; row < rows; ++row) std::copy(bias, bias + columns, y + row * columns);
}

/// sums = the sum of the rows, in their order.
template <class Real>
void sum_rows(std::size_t rows, std::size_t columns, const Real* x, Real* sums) {
  std::fill(sums, sums + columns, Real{});
  for (std::size_t row = 0; row < rows; ++row, x += columns)
    for (std::size_t i = 0; i < columns; ++i) sums[i] += x[i];
}

/// Adds `bias` to every row of `y`.
template <class Real>
void add_rows(std::size_t rows, std::size_t columns, const Real* bias, Real* y) {
  for (std::size_t row = 0; row < rows; ++row, y += columns)
    for (std::size_t i = 0; i < columns; ++i) y[i] += bias[i];
}

/// to += from.
template <class Real>
void add(std::size_t n, const Real* from, Real* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

/// sums[i] = the sum of the squares of x[16 i] to x[16 i + 15], in the order of a vector's lanes.
inline void squares(std::size_t n, const float* x, double* sums) {
  for (std::size_t i = 0; i < n; i += kLanes<float>) {
    Lanes<float> lanes{};
    std::memcpy(&lanes, x + i, std::min(kLanes<float>, n - i) * sizeof(float));
    *sums++ = static_cast<double>(sum_of<float>(lanes * lanes));
  }
}

}  // namespace training::TRAINING_ISA
