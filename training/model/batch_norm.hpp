// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (Ioffe, Szegedy 2015, arXiv 1502.03167, algorithms 1 and 2).
//
// With m rows of a micro-batch, in each column:
//   mean = sum(x) / m,  var = sum((x - mean)^2) / m,  h = (x - mean) / sqrt(var + 1e-5),
//   y = h * gain + bias.
// Backward: dbias = sum(dy), dgain = sum(dy * h),
//   dx = gain / sqrt(var + 1e-5) * (dy - dbias / m - h * dgain / m).
// For evaluation, which takes them in place of mean and var, with momentum 0.1:
//   running mean += 0.1 * (mean - running mean),  running var += 0.1 * (m / (m - 1) * var - ...).
//
// What depends on ranks: each micro-batch normalises by itself, so that outputs and gradients
// depend on how a batch is cut into micro-batches, not on which rank computes them. The running
// statistics are of the micro-batches of one rank, in their order: rank 0's count
// (parallel/buffers.hpp). With more ranks, or another way to deal micro-batches (stages 2 and 3 of
// ZeRO, balance), rank 0 sees others: training has the same bits, validation has not.
#pragma once
#include <cmath>
#include <cstddef>

#include "../math/kernels.hpp"

namespace training {

template <class Real>
void batch_statistics(std::size_t rows, std::size_t columns, const Real* x, Real* mean,
                      Real* variance) {
  const auto m = static_cast<Real>(rows);
  kernels<Real>().sum_rows(rows, columns, x, mean);
  for (std::size_t i = 0; i < columns; ++i) {
    mean[i] /= m;
    variance[i] = 0;
  }
  for (std::size_t row = 0; row < rows; ++row, x += columns)
    for (std::size_t i = 0; i < columns; ++i) variance[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
  for (std::size_t i = 0; i < columns; ++i) variance[i] /= m;
}

/// At least two rows.
template <class Real>
void run_statistics(std::size_t rows, std::size_t columns, const Real* mean, const Real* variance,
                    Real* running_mean, Real* running_variance) {
  constexpr auto kMomentum = static_cast<Real>(0.1);
  const Real unbiased = static_cast<Real>(rows) / static_cast<Real>(rows - 1);
  for (std::size_t i = 0; i < columns; ++i) {
    running_mean[i] += kMomentum * (mean[i] - running_mean[i]);
    running_variance[i] += kMomentum * (unbiased * variance[i] - running_variance[i]);
  }
}

template <class Real>
void variance_to_scale(std::size_t columns, Real* variance) {
  for (std::size_t i = 0; i < columns; ++i)
    variance[i] = 1 / std::sqrt(variance[i] + static_cast<Real>(1e-5));
}

template <class Real>
void batch_norm(std::size_t rows, std::size_t columns, const Real* x, const Real* mean,
                const Real* scale, const Real* gain, const Real* bias, Real* y) {
  for (std::size_t row = 0; row < rows; ++row, x += columns, y += columns)
    for (std::size_t i = 0; i < columns; ++i)
      y[i] = (x[i] - mean[i]) * scale[i] * gain[i] + bias[i];
}

/// `d` is dy, and becomes dx. Writes `dgain` and `dbias`.
template <class Real>
void batch_norm_backward(std::size_t rows, std::size_t columns, const Real* x, const Real* mean,
                         const Real* scale, const Real* gain, Real* d, Real* dgain, Real* dbias) {
  const auto m = static_cast<Real>(rows);
  const auto h = [&](std::size_t row, std::size_t i) {
    return (x[row * columns + i] - mean[i]) * scale[i];
  };
  kernels<Real>().sum_rows(rows, columns, d, dbias);
  for (std::size_t i = 0; i < columns; ++i) dgain[i] = 0;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < columns; ++i) dgain[i] += d[row * columns + i] * h(row, i);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      Real& of = d[row * columns + i];
      of = gain[i] * scale[i] * (of - dbias[i] / m - h(row, i) * dgain[i] / m);
    }
  }
}

}  // namespace training
