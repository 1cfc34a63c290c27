// SPDX-License-Identifier: Apache-2.0
// Picks the table of kernels that this processor runs, and OpenBLAS for products of matrices.
#include "kernels.hpp"
#include "number_format.hpp"
#include "open_blas.hpp"

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

/// c = a b + beta c by OpenBLAS.
template <class Real>
void blas_product(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k,
                  const Real* a, std::size_t lda, const Real* b, std::size_t ldb, Real beta,
                  Real* c, std::size_t ldc) {
  // The numbers of CBLAS (Blackford et al. 2002, "An updated set of Basic Linear Algebra
  // Subprograms", ACM TOMS 28(2)).
  static constexpr int kRowMajor = 101, kAsItIs = 111, kTurned = 112;
  const auto turn = [](bool turned) { return turned ? kTurned : kAsItIs; };
  const auto whole = [](std::size_t size) { return static_cast<int>(size); };
  const OpenBlas& blas = *open_blas();
  const auto product = [&] {
    if constexpr (sizeof(Real) == 4)
      return blas.sgemm;
    else
      return blas.dgemm;
  }();
  product(kRowMajor, turn(turn_a), turn(turn_b), whole(m), whole(n), whole(k), Real{1}, a,
          whole(lda), b, whole(ldb), beta, c, whole(ldc));
}

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
    if (open_blas() != nullptr) {
      table.of_float.product = blas_product<float>;
      table.of_double.product = blas_product<double>;
    }
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
