// SPDX-License-Identifier: Apache-2.0
// The arithmetic of training: one table of functions for each instruction set. All tables give the
// same bits, but for products of matrices.
#pragma once
#include <cstddef>
#include <cstdint>

namespace training {

/// c[m x n] = a[m x k] b[k x n] + beta c, by rows; `lda` … are elements from row to row. If
/// `turn_a`, the memory of `a` holds its transpose, k x m; so for `turn_b`.
template <class Real>
using Product = void (*)(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k,
                         const Real* a, std::size_t lda, const Real* b, std::size_t ldb, Real beta,
                         Real* c, std::size_t ldc);

struct AttentionShape {
  std::size_t sequences, tokens, heads, width;  ///< width: of one head
  [[nodiscard]] std::size_t stride() const { return 3 * heads * width; }
  [[nodiscard]] std::size_t probabilities() const { return sequences * heads * tokens * tokens; }
};

/// One step of AdamW (adam.hpp).
struct AdamStep {
  float scale = 1;  ///< of gradients
  float rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0;
  float step_size = 0, root_of_correction = 1;
};

/// The functions of layer_norm.hpp, gelu.hpp, softmax.hpp, attention.hpp and rows.hpp.
template <class Real>
struct Kernels {
  Product<Real> product;
  void (*layer_norm)(std::size_t rows, std::size_t columns, const Real* x, const Real* gain,
                     const Real* bias, Real* y, Real* mean, Real* scale);
  void (*layer_norm_backward)(std::size_t rows, std::size_t columns, const Real* x,
                              const Real* gain, const Real* mean, const Real* scale, const Real* dy,
                              Real* dx, Real* dgain, Real* dbias);
  void (*gelu)(std::size_t n, const Real* x, Real* y);
  void (*gelu_backward)(std::size_t n, const Real* x, const Real* dy, Real* dx);
  void (*row_maxima)(std::size_t rows, std::size_t columns, const Real* x, Real* maxima);
  void (*row_exponentials)(std::size_t rows, std::size_t columns, const Real* maxima, Real* x,
                           Real* sums);
  void (*cross_entropy_backward)(std::size_t rows, std::size_t columns, std::size_t first,
                                 const std::int32_t* targets, const Real* sums, Real factor,
                                 Real* x);
  void (*attention)(const AttentionShape&, Product<Real>, const Real* qkv, Real* p, Real* out);
  void (*attention_backward)(const AttentionShape&, Product<Real>, const Real* qkv, const Real* p,
                             const Real* dout, Real* dqkv, Real* ds);
  void (*fill_rows)(std::size_t rows, std::size_t columns, const Real* bias, Real* y);
  void (*sum_rows)(std::size_t rows, std::size_t columns, const Real* x, Real* sums);
  void (*add_rows)(std::size_t rows, std::size_t columns, const Real* bias, Real* y);
  void (*add)(std::size_t n, const Real* from, Real* to);
};

/// How numbers of a format are stored (number_format.hpp).
struct Numbers {
  void (*widen)(std::size_t n, const void* from, float* to);
  void (*narrow)(std::size_t n, const float* from, void* to);
  void (*add)(std::size_t n, const void* from, void* to);
};

struct Table {
  const char* name;  ///< "avx512", "avx2", "neon", "baseline"
  Kernels<float> of_float;
  Kernels<double> of_double;
  void (*adam)(const AdamStep& step, std::size_t n, const float* gradient, float* w, float* m,
               float* v);
  /// Sums of squares of 16 gradients each; the last block may be shorter.
  void (*squares)(std::size_t n, const float* x, double* sums);
  Numbers numbers[3];  ///< of each Format
};

/// The best table that this processor can run.
const Table& table();

/// The best kernels, with the products of OpenBLAS where this machine has it.
template <class Real>
const Kernels<Real>& kernels();

}  // namespace training
