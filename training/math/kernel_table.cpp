// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set: TRAINING_ISA names it.
#include "adam.hpp"
#include "attention.hpp"
#include "conversions.hpp"
#include "gelu.hpp"
#include "kernels.hpp"
#include "layer_norm.hpp"
#include "rows.hpp"
#include "softmax.hpp"

#define TRAINING_TEXT_OF(word) #word
#define TRAINING_TEXT(macro) TRAINING_TEXT_OF(macro)

namespace training::TRAINING_ISA {

/// In matrix_product.cpp: there multiplications and additions may be fused.
template <class Real>
void matrix_product(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k,
                    const Real* a, std::size_t lda, const Real* b, std::size_t ldb, Real beta,
                    Real* c, std::size_t ldc);

template <class Real>
Kernels<Real> kernels_of() {
  return {.product = matrix_product<Real>,
          .layer_norm = layer_norm<Real>,
          .layer_norm_backward = layer_norm_backward<Real>,
          .gelu = gelu<Real>,
          .gelu_backward = gelu_backward<Real>,
          .row_maxima = row_maxima<Real>,
          .row_exponentials = row_exponentials<Real>,
          .cross_entropy_backward = cross_entropy_backward<Real>,
          .attention = attention<Real>,
          .attention_backward = attention_backward<Real>,
          .fill_rows = fill_rows<Real>,
          .sum_rows = sum_rows<Real>,
          .add_rows = add_rows<Real>,
          .add = add<Real>};
}

template <class Number>
Numbers numbers_of() {
  return {widen_all<Number>, narrow_all<Number>, add_all<Number>};
}

Table make_table() {
  return {.name = TRAINING_TEXT(TRAINING_ISA),
          .of_float = kernels_of<float>(),
          .of_double = kernels_of<double>(),
          .adam = adam,
          .squares = squares,
          .numbers = {numbers_of<PlainFloat>(), numbers_of<BrainFloat>(), numbers_of<HalfFloat>()}};
}

}  // namespace training::TRAINING_ISA
