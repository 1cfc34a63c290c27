// SPDX-License-Identifier: Apache-2.0
// Causal self-attention of many heads (Vaswani et al. 2017, arXiv 1706.03762, section 3.2).
//
//   S = Q K' / sqrt(d), P = softmax over the columns up to the row's own, O = P V
//
// Backward: dV = P' dO, dP = dO V', dS = P * (dP - rowsum(dP * P)), dQ = dS K / sqrt(d),
// dK = dS' Q / sqrt(d).
//
// `qkv` has a row for each token: the queries of all heads, then their keys, then their values.
#pragma once
#include "kernels.hpp"
#include "softmax.hpp"

namespace training::TRAINING_ISA {

/// `p` keeps the probabilities of all heads for the backward pass.
template <class Real>
void attention(const AttentionShape& shape, Product<Real> product, const Real* qkv, Real* p,
               Real* out) {
  const auto [sequences, tokens, heads, width] = shape;
  const std::size_t all = heads * width, stride = shape.stride();
  const Real factor = 1 / std::sqrt(static_cast<Real>(width));
  for (std::size_t s = 0; s < sequences; ++s) {
    for (std::size_t h = 0; h < heads; ++h, p += tokens * tokens) {
      const Real* q = qkv + s * tokens * stride + h * width;
      const Real* k = q + all;
      const Real* v = k + all;
      product(false, true, tokens, tokens, width, q, stride, k, stride, 0, p, tokens);
      for (std::size_t t = 0; t < tokens; ++t)
        softmax_row<Real>(t + 1, tokens, factor, p + t * tokens, p + t * tokens);
      product(false, false, tokens, width, tokens, p, tokens, v, stride, 0,
              out + s * tokens * all + h * width, all);
    }
  }
}

/// Writes `dqkv`. `ds` is scratch of tokens * tokens elements.
template <class Real>
void attention_backward(const AttentionShape& shape, Product<Real> product, const Real* qkv,
                        const Real* p, const Real* dout, Real* dqkv, Real* ds) {
  const auto [sequences, tokens, heads, width] = shape;
  const std::size_t all = heads * width, stride = shape.stride();
  const Real factor = 1 / std::sqrt(static_cast<Real>(width));
  for (std::size_t s = 0; s < sequences; ++s) {
    for (std::size_t h = 0; h < heads; ++h, p += tokens * tokens) {
      const std::size_t at = s * tokens * stride + h * width;
      const Real* q = qkv + at;
      const Real* k = q + all;
      const Real* v = k + all;
      Real* dq = dqkv + at;
      Real* dk = dq + all;
      Real* dv = dk + all;
      const Real* d = dout + s * tokens * all + h * width;
      product(true, false, tokens, width, tokens, p, tokens, d, all, 0, dv, stride);
      product(false, true, tokens, tokens, width, d, all, v, stride, 0, ds, tokens);
      for (std::size_t t = 0; t < tokens; ++t) {
        Real* row = ds + t * tokens;
        const Real* of_row = p + t * tokens;
        const Real dot = sum_over<Real>(
            t + 1, [&](std::size_t i) { return load(row + i) * load(of_row + i); },
            [&](std::size_t i) { return row[i] * of_row[i]; });
        for (std::size_t i = 0; i <= t; ++i) row[i] = of_row[i] * (row[i] - dot) * factor;
        for (std::size_t i = t + 1; i < tokens; ++i) row[i] = 0;
      }
      product(false, false, tokens, width, tokens, ds, tokens, k, stride, 0, dq, stride);
      product(true, false, tokens, width, tokens, ds, tokens, q, stride, 0, dk, stride);
    }
  }
}

}  // namespace training::TRAINING_ISA
