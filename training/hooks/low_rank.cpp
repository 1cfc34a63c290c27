// SPDX-License-Identifier: Apache-2.0
// Plain loops in a fixed order; this file is built without contraction of products and sums.
#include "low_rank.hpp"

#include <algorithm>
#include <cmath>

namespace training {
namespace {

double dot(std::size_t n, const float* a, const float* b) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// row += factor * other.
void add_multiple(std::size_t n, float factor, const float* other, float* row) {
  for (std::size_t i = 0; i < n; ++i) row[i] += factor * other[i];
}

}  // namespace

void orthonormalise(std::size_t rank, std::size_t n, float* p) {
  constexpr double kRounding = 1e-5;  // of what is left where a row is spanned by the others
  for (std::size_t k = 0; k < rank; ++k) {
    float* row = p + k * n;
    const double before = std::sqrt(dot(n, row, row));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < k; ++other) {
        const float* earlier = p + other * n;
        add_multiple(n, static_cast<float>(-dot(n, row, earlier)), earlier, row);
      }
    }
    const double norm = std::sqrt(dot(n, row, row));
    if (norm <= kRounding * before) {
      std::fill_n(row, n, 0.0F);
      continue;
    }
    for (std::size_t i = 0; i < n; ++i)
      row[i] = static_cast<float>(static_cast<double>(row[i]) / norm);
  }
}

void low_rank_product(std::size_t rank, std::size_t n, std::size_t columns, const float* p,
                      const float* q, float* m) {
  for (std::size_t i = 0; i < n; ++i) {
    float* row = m + i * columns;
    std::fill_n(row, columns, 0.0F);
    for (std::size_t k = 0; k < rank; ++k)
      add_multiple(columns, p[k * n + i], q + k * columns, row);
  }
}

void subtract_low_rank(std::size_t rank, std::size_t n, std::size_t columns, const float* p,
                       const float* q, float* m) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < rank; ++k)
      add_multiple(columns, -p[k * n + i], q + k * columns, m + i * columns);
}

}  // namespace training
