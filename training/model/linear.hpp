// SPDX-License-Identifier: Apache-2.0
// A linear layer: y = x W' + b, with W as out x in. dx = dy W, dW = dy' x, db = the sum of dy's
// rows.
#pragma once
#include "../math/kernels.hpp"

namespace training {

struct LinearShape {
  std::size_t rows, in, out;
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }
};

/// `bias` may be null.
template <class Real>
void linear(const LinearShape& shape, const Real* x, const Real* w, const Real* bias, Real* y) {
  const Kernels<Real>& k = kernels<Real>();
  if (bias != nullptr) k.fill_rows(shape.rows, shape.out, bias, y);
  k.product(false, true, shape.rows, shape.out, shape.in, x, shape.in, w, shape.in,
            bias != nullptr ? Real{1} : Real{0}, y, shape.out);
}

template <class Real>
void linear_backward_input(const LinearShape& shape, const Real* dy, const Real* w, Real* dx) {
  kernels<Real>().product(false, false, shape.rows, shape.in, shape.out, dy, shape.out, w, shape.in,
                          0, dx, shape.in);
}

template <class Real>
void linear_backward_weights(const LinearShape& shape, const Real* x, const Real* dy, Real* dw) {
  kernels<Real>().product(true, false, shape.out, shape.in, shape.rows, dy, shape.out, x, shape.in,
                          0, dw, shape.in);
}

}  // namespace training
