// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba, Kiros, Hinton 2016, arXiv 1607.06450, equation 4).
//
//   y = (x - mean(x)) / sqrt(var(x) + 1e-5) * gain + bias, over the columns of each row.
//
// Backward, with h = (x - mean) / sqrt(...) and g = dy * gain:
//   dx = (g - mean(g) - h * mean(g * h)) / sqrt(...), dgain = sum dy * h, dbias = sum dy over rows.
#pragma once
#include "lanes.hpp"

namespace training::TRAINING_ISA {

/// `mean` and `scale` (1 / sqrt(...)) have an element for each row, and serve the backward pass.
template <class Real>
void layer_norm(std::size_t rows, std::size_t columns, const Real* x, const Real* gain,
                const Real* bias, Real* y, Real* mean, Real* scale) {
  const auto n = static_cast<Real>(columns);
  for (std::size_t row = 0; row < rows; ++row, x += columns, y += columns) {
    const Real m = sum_over<Real>(
                       columns, [&](std::size_t i) { return load(x + i); },
                       [&](std::size_t i) { return x[i]; }) /
                   n;
    const Real variance = sum_over<Real>(
                              columns,
                              [&](std::size_t i) {
                                const Lanes<Real> off = load(x + i) - Lanes<Real>::all(m);
                                return off * off;
                              },
                              [&](std::size_t i) { return (x[i] - m) * (x[i] - m); }) /
                          n;
    const Real s = 1 / std::sqrt(variance + static_cast<Real>(1e-5));
    for (std::size_t i = 0; i < columns; ++i) y[i] = (x[i] - m) * s * gain[i] + bias[i];
    mean[row] = m;
    scale[row] = s;
  }
}

/// Adds to `dx`; writes `dgain` and `dbias`.
template <class Real>
void layer_norm_backward(std::size_t rows, std::size_t columns, const Real* x, const Real* gain,
                         const Real* mean, const Real* scale, const Real* dy, Real* __restrict dx,
                         Real* __restrict dgain, Real* __restrict dbias) {
  const auto n = static_cast<Real>(columns);
  for (std::size_t i = 0; i < columns; ++i) dgain[i] = dbias[i] = 0;
  for (std::size_t row = 0; row < rows; ++row, x += columns, dx += columns, dy += columns) {
    const Real m = mean[row], s = scale[row];
    const Real mean_g = sum_over<Real>(
                            columns, [&](std::size_t i) { return load(dy + i) * load(gain + i); },
                            [&](std::size_t i) { return dy[i] * gain[i]; }) /
                        n;
    const Real mean_gh = sum_over<Real>(
                             columns,
                             [&](std::size_t i) {
                               return load(dy + i) * load(gain + i) *
                                      ((load(x + i) - Lanes<Real>::all(m)) * Lanes<Real>::all(s));
                             },
                             [&](std::size_t i) { return dy[i] * gain[i] * ((x[i] - m) * s); }) /
                         n;
    for (std::size_t i = 0; i < columns; ++i) {
      const Real h = (x[i] - m) * s;
      dgain[i] += dy[i] * h;
      dbias[i] += dy[i];
      dx[i] += (dy[i] * gain[i] - mean_g - h * mean_gh) * s;
    }
  }
}

}  // namespace training::TRAINING_ISA
