// SPDX-License-Identifier: Apache-2.0
// The loss of softmax(logits) against targets, where partners may share the columns (Shoeybi et al.
// 2019, Megatron-LM, arXiv 1909.08053, section 3, "parallel cross entropy"):
//
//   loss = max + log(sum e^(x - max)) - x[target], summed over the rows.
//
// Partners take the maximum of their maxima, and then the sum of their sums and targets: 3 elements
// for each row, and never the logits.
#pragma once
#include "../math/kernels.hpp"
#include "unit.hpp"

namespace training {

/// The columns that this rank has: column 0 is that of target `first`.
template <class Real>
struct LossColumns {
  std::size_t columns, first = 0;
  Partners<Real>* partners = nullptr;
};

/// Adds to `outcome`. Turns `logits` into exponentials, for loss_backward. Writes two elements for
/// each row to `sums`; `maxima` is scratch with one.
template <class Real>
void loss_forward(const LossColumns<Real>& shape, const Batch& batch, Real* logits, Real* sums,
                  Real* maxima, Outcome& outcome);

/// Turns the exponentials into the gradient of factor * (summed loss) by the logits.
template <class Real>
void loss_backward(const LossColumns<Real>& shape, const Batch& batch, const Real* sums,
                   Real factor, Real* logits) {
  kernels<Real>().cross_entropy_backward(batch.rows(), shape.columns, shape.first,
                                         batch.targets.data(), sums, factor, logits);
}

}  // namespace training
