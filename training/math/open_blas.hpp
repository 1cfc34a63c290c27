// SPDX-License-Identifier: Apache-2.0
// OpenBLAS, loaded when it is first asked for: the library chooses its kernels as it is loaded, and
// a release knows only processors older than itself. On one that it does not know it falls back to
// kernels of 2004 (SSE3), five times slower. So the choice is made here, by what the processor can
// do, unless the environment has made it (OPENBLAS_CORETYPE).
#pragma once
#include <cstddef>
#include <string>

namespace training {

struct OpenBlas {
  template <class Real>
  using Product = void (*)(int order, int turn_a, int turn_b, int m, int n, int k, Real alpha,
                           const Real* a, int lda, const Real* b, int ldb, Real beta, Real* c,
                           int ldc);
  Product<float> sgemm;
  Product<double> dgemm;
  std::string version, core;  ///< such as "0.3.21" and "SkylakeX"
};

/// Null if this machine has none. With one thread: a rank is one.
const OpenBlas* open_blas();

/// "OpenBLAS 0.3.21 (SkylakeX)", or what multiplies matrices in its place.
std::string describe_products();

}  // namespace training
