// SPDX-License-Identifier: Apache-2.0
// Matrix products, c = a b + beta c, where no BLAS is found: blocked as in Goto, van de Geijn 2008
// ("Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), section 4).
//
// A panel of b (kDepth x kWide) is packed once and stays in the L2 cache, a panel of a (kTall x
// kDepth) in the L1 cache; the innermost loop keeps kRows x kColumns results in registers.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels.hpp"
#include "lanes.hpp"

namespace training::TRAINING_ISA {

/// kRows x 2 vectors of sums: with 2 of b and 1 of a they fit into 16 registers.
template <class Real>
struct Tile {
  static constexpr std::size_t kRows = 6;
  static constexpr std::size_t kInVector = kVectorBytes / sizeof(Real);
  static constexpr std::size_t kColumns = 2 * kInVector;
};

/// sums = a b for one tile; `a` is packed by columns of kRows, `b` by rows of kColumns.
template <class Real>
inline void multiply_tile(std::size_t k, const Real* a, const Real* b, Real* sums) {
  using T = Tile<Real>;
  Vector<Real> left[T::kRows]{}, right[T::kRows]{};
  for (std::size_t i = 0; i < k; ++i, a += T::kRows, b += T::kColumns) {
    Vector<Real> b0, b1;
    std::memcpy(&b0, b, kVectorBytes);
    std::memcpy(&b1, b + T::kInVector, kVectorBytes);
#pragma GCC unroll 6
    for (std::size_t row = 0; row < T::kRows; ++row) {
      left[row] += b0 * a[row];
      right[row] += b1 * a[row];
    }
  }
#pragma GCC unroll 6
  for (std::size_t row = 0; row < T::kRows; ++row) {
    std::memcpy(sums + row * T::kColumns, &left[row], kVectorBytes);
    std::memcpy(sums + row * T::kColumns + T::kInVector, &right[row], kVectorBytes);
  }
}

template <class Real>
void matrix_product(bool turn_a, bool turn_b, std::size_t m, std::size_t n, std::size_t k,
                    const Real* a, std::size_t lda, const Real* b, std::size_t ldb, Real beta,
                    Real* c, std::size_t ldc) {
  using T = Tile<Real>;
  constexpr std::size_t kTall = 16 * T::kRows, kDepth = 256, kWide = 1024 / sizeof(Real);
  thread_local std::vector<Real> packed_a(kTall * kDepth), packed_b(kWide * kDepth);
  const auto at = [](bool turned, const Real* of, std::size_t stride, std::size_t row,
                     std::size_t column) {
    return turned ? of[column * stride + row] : of[row * stride + column];
  };
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
  for (std::size_t depth = 0; depth < k; depth += kDepth) {
    const std::size_t deep = std::min(kDepth, k - depth);
    for (std::size_t left = 0; left < n; left += kWide) {
      const std::size_t wide = std::min(kWide, n - left);
      Real* to = packed_b.data();
      for (std::size_t j = 0; j < wide; j += T::kColumns)
        for (std::size_t d = 0; d < deep; ++d)
          for (std::size_t x = 0; x < T::kColumns; ++x)
            *to++ = j + x < wide ? at(turn_b, b, ldb, depth + d, left + j + x) : 0;
      for (std::size_t top = 0; top < m; top += kTall) {
        const std::size_t tall = std::min(kTall, m - top);
        to = packed_a.data();
        for (std::size_t i = 0; i < tall; i += T::kRows)
          for (std::size_t d = 0; d < deep; ++d)
            for (std::size_t x = 0; x < T::kRows; ++x)
              *to++ = i + x < tall ? at(turn_a, a, lda, top + i + x, depth + d) : 0;
        for (std::size_t j = 0; j < wide; j += T::kColumns) {
          for (std::size_t i = 0; i < tall; i += T::kRows) {
            Real sums[T::kRows * T::kColumns];
            multiply_tile<Real>(deep, packed_a.data() + i * deep, packed_b.data() + j * deep, sums);
            const std::size_t rows = std::min(T::kRows, tall - i);
            const std::size_t columns = std::min(T::kColumns, wide - j);
            for (std::size_t x = 0; x < rows; ++x)
              for (std::size_t y = 0; y < columns; ++y)
                c[(top + i + x) * ldc + left + j + y] += sums[x * T::kColumns + y];
          }
        }
      }
    }
  }
}

template void matrix_product(bool, bool, std::size_t, std::size_t, std::size_t, const float*,
                             std::size_t, const float*, std::size_t, float, float*, std::size_t);
template void matrix_product(bool, bool, std::size_t, std::size_t, std::size_t, const double*,
                             std::size_t, const double*, std::size_t, double, double*, std::size_t);

}  // namespace training::TRAINING_ISA
