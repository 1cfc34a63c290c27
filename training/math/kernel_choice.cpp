// SPDX-License-Identifier: Apache-2.0
// Picks the table of kernels that this processor runs, and a BLAS for products of matrices.
#include "kernels.hpp"
#include "number_format.hpp"

#if TRAINING_HAVE_BLAS
#include <cblas.h>
#endif

namespace training {

#if defined(__x86_64__)
namespace avx512 {
Table make_table();
}
namespace avx2 {
Table make_table();
}
#endif
namespace baseline {
Table make_table();
}

namespace {

#if TRAINING_HAVE_BLAS
/// c = a b + beta c by OpenBLAS.
template <class Real>
void blas_product(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k,
                  const Real* a, std::size_t lda, const Real* b, std::size_t ldb, Real beta,
                  Real* c, std::size_t ldc) {
  const auto turn = [](bool turned) { return turned ? CblasTrans : CblasNoTrans; };
  const auto whole = [](std::size_t size) { return static_cast<blasint>(size); };
  if constexpr (sizeof(Real) == 4) {
    cblas_sgemm(CblasRowMajor, turn(turn_a), turn(turn_b), whole(m), whole(n), whole(k), 1, a,
                whole(lda), b, whole(ldb), beta, c, whole(ldc));
  } else {
    cblas_dgemm(CblasRowMajor, turn(turn_a), turn(turn_b), whole(m), whole(n), whole(k), 1, a,
                whole(lda), b, whole(ldb), beta, c, whole(ldc));
  }
}
#endif

Table best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return avx512::make_table();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::make_table();
#endif
  return baseline::make_table();
}

}  // namespace

const Table& table() {
  static const Table chosen = [] {
    Table table = best();
#if TRAINING_HAVE_BLAS
    openblas_set_num_threads(1);  // a rank is one thread
    table.of_float.product = blas_product<float>;
    table.of_double.product = blas_product<double>;
#endif
    return table;
  }();
  return chosen;
}

namespace {
const Numbers& numbers_of(Format format) {
  return table().numbers[static_cast<std::size_t>(format)];
}
}  // namespace

void widen(Format format, std::size_t count, const void* from, float* to) {
  numbers_of(format).widen(count, from, to);
}
void narrow(Format format, std::size_t count, const float* from, void* to) {
  numbers_of(format).narrow(count, from, to);
}
void add(Format format, std::size_t count, const void* from, void* to) {
  numbers_of(format).add(count, from, to);
}

template <>
const Kernels<float>& kernels() {
  return table().of_float;
}
template <>
const Kernels<double>& kernels() {
  return table().of_double;
}

}  // namespace training
