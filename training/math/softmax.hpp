// SPDX-License-Identifier: Apache-2.0
// Softmax of rows, and the loss on it.
//
//   p = e^(x - max) / sum e^(x - max), loss = -log p[target]; dloss/dx = p - [i = target]
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace training::TRAINING_ISA {

/// p = softmax(x * factor) over the first `used` of `columns`; the others become 0. `p` may be `x`.
/// Returns the logarithm of the sum of e^(x * factor).
template <class Real>
inline Real softmax_row(std::size_t used, std::size_t columns, Real factor, const Real* x,
                        Real* p) {
  Real most = x[0];
  for (std::size_t i = 1; i < used; ++i) most = x[i] > most ? x[i] : most;
  for (std::size_t i = 0; i < used; ++i) p[i] = exponential<Real>((x[i] - most) * factor);
  const Real sum = sum_over<Real>(
      used, [&](std::size_t i) { return load(p + i); }, [&](std::size_t i) { return p[i]; });
  const Real share = 1 / sum;
  for (std::size_t i = 0; i < used; ++i) p[i] *= share;
  for (std::size_t i = used; i < columns; ++i) p[i] = 0;
  return most * factor + std::log(sum);
}

/// The summed loss of the rows with a target (not -1), in their order. `p` may be `logits`.
template <class Real>
double cross_entropy(std::size_t rows, std::size_t columns, const Real* logits,
                     const std::int32_t* targets, Real* p) {
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row, logits += columns, p += columns) {
    const Real of_target = targets[row] < 0 ? 0 : logits[targets[row]];
    const Real log_sum = softmax_row<Real>(columns, columns, 1, logits, p);
    if (targets[row] >= 0) loss += static_cast<double>(log_sum - of_target);
  }
  return loss;
}

/// The gradient of factor * (summed loss), in place of `p`.
template <class Real>
void cross_entropy_backward(std::size_t rows, std::size_t columns, const std::int32_t* targets,
                            Real factor, Real* p) {
  for (std::size_t row = 0; row < rows; ++row, p += columns) {
    if (targets[row] < 0) {
      std::fill(p, p + columns, Real{});
      continue;
    }
    p[targets[row]] -= 1;
    for (std::size_t i = 0; i < columns; ++i) p[i] *= factor;
  }
}

}  // namespace training::TRAINING_ISA
