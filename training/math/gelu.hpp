// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit in its tanh form (Hendrycks, Gimpel 2016, arXiv 1606.08415,
// section 2).
//
//   y = x / 2 * (1 + t), t = tanh(sqrt(2 / pi) * (x + 0.044715 x^3))
//   dy/dx = (1 + t) / 2 + x / 2 * (1 - t^2) * sqrt(2 / pi) * (1 + 3 * 0.044715 x^2)
#pragma once
#include "lanes.hpp"

namespace training::TRAINING_ISA {

inline constexpr double kRootTwoOverPi = 0.79788456080286535588;
inline constexpr double kCubic = 0.044715;

template <class Real>
inline Real gelu_tangent(Real x) {
  return hyperbolic_tangent<Real>(static_cast<Real>(kRootTwoOverPi) *
                                  (x + static_cast<Real>(kCubic) * x * x * x));
}

template <class Real>
void gelu(std::size_t n, const Real* x, Real* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] / 2 * (1 + gelu_tangent(x[i]));
}

/// `dx` may be `dy`.
template <class Real>
void gelu_backward(std::size_t n, const Real* x, const Real* dy, Real* dx) {
  for (std::size_t i = 0; i < n; ++i) {
    const Real t = gelu_tangent(x[i]);
    const Real inner =
        static_cast<Real>(kRootTwoOverPi) * (1 + 3 * static_cast<Real>(kCubic) * x[i] * x[i]);
    dx[i] = dy[i] * ((1 + t) / 2 + x[i] / 2 * (1 - t * t) * inner);
  }
}

}  // namespace training::TRAINING_ISA
