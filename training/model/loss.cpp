// SPDX-License-Identifier: Apache-2.0
// Finds what the loss and the count of right answers need of each row.
#include "loss.hpp"

#include <cmath>

namespace training {

template <class Real>
void loss_forward(const LossColumns<Real>& shape, const Batch& batch, Real* logits, Real* sums,
                  Real* maxima, Outcome& outcome) {
  const Kernels<Real>& k = kernels<Real>();
  const std::size_t rows = batch.rows();
  Real* of_targets = sums + rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t own = static_cast<std::size_t>(batch.targets[row]) - shape.first;
    of_targets[row] =
        batch.targets[row] >= 0 && own < shape.columns ? logits[row * shape.columns + own] : 0;
  }
  k.row_maxima(rows, shape.columns, logits, maxima);
  if (shape.partners != nullptr) shape.partners->maximum({maxima, rows});
  k.row_exponentials(rows, shape.columns, maxima, logits, sums);
  if (shape.partners != nullptr) shape.partners->sum({sums, 2 * rows});
  for (std::size_t row = 0; row < rows; ++row) {
    if (batch.targets[row] < 0) continue;
    outcome.loss += static_cast<double>(maxima[row] - of_targets[row]) +
                    std::log(static_cast<double>(sums[row]));
    outcome.right += of_targets[row] >= maxima[row] ? 1 : 0;
    ++outcome.rows;
  }
}

template void loss_forward(const LossColumns<float>&, const Batch&, float*, float*, float*,
                           Outcome&);
template void loss_forward(const LossColumns<double>&, const Batch&, double*, double*, double*,
                           Outcome&);

}  // namespace training
