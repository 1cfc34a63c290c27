// SPDX-License-Identifier: Apache-2.0
// The products of matrices, ours of every instruction set and the BLAS's, beside plain code in f64.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "kernel_tables.hpp"
#include "math/open_blas.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace matrix_product_test {

struct Size {
  std::size_t m, n, k;
};

/// Sizes around those of tiles and blocks, and random ones.
std::vector<Size> sizes(std::mt19937_64& random) {
  std::vector<Size> all = {{1, 1, 1},    {6, 32, 8},   {7, 33, 9},      {5, 31, 257}, {97, 65, 17},
                           {96, 256, 3}, {13, 257, 5}, {100, 300, 260}, {1, 500, 2},  {3, 2, 1}};
  for (int i = 0; i < 20; ++i)
    all.push_back({1 + random() % 70, 1 + random() % 70, 1 + random() % 70});
  return all;
}

template <class Real>
class MatrixProduct : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(MatrixProduct, Reals);

TYPED_TEST(MatrixProduct, IsThatOfPlainCode) {
  std::mt19937_64 random(coll::test::test_seed());
  const std::vector<Table> tables = tables_of_this_machine();
  for (const auto& [m, n, k] : sizes(random)) {
    for (unsigned how = 0; how < 8; ++how) {
      const bool turn_a = (how & 1U) != 0, turn_b = (how & 2U) != 0;
      const TypeParam beta = (how & 4U) != 0 ? TypeParam{1} : TypeParam{0};
      const std::size_t lda = (turn_a ? m : k) + random() % 5,
                        ldb = (turn_b ? k : n) + random() % 5;
      const std::size_t ldc = n + random() % 5;
      const auto a = normals<TypeParam>((turn_a ? k : m) * lda, random);
      const auto b = normals<TypeParam>((turn_b ? n : k) * ldb, random);
      auto before = normals<TypeParam>(m * ldc, random);
      // With beta 0 what was there does not count, whatever it is.
      if (beta == 0)
        for (std::size_t i = 0; i < m; ++i)
          before[i * ldc] = std::numeric_limits<TypeParam>::quiet_NaN();
      std::vector<double> expected(m * n), sizes(m * n);
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t d = 0; d < k; ++d)
          for (std::size_t j = 0; j < n; ++j) {
            const double term = double(turn_a ? a[d * lda + i] : a[i * lda + d]) *
                                double(turn_b ? b[j * ldb + d] : b[d * ldb + j]);
            expected[i * n + j] += term;
            sizes[i * n + j] += std::fabs(term);
          }
      for (const Table& table : tables) {
        auto c = before;
        kernels_of<TypeParam>(table).product(turn_a, turn_b, m, n, k, a.data(), lda, b.data(), ldb,
                                             beta, c.data(), ldc);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < ldc; ++j) {
            const auto got = double(c[i * ldc + j]), old = double(before[i * ldc + j]);
            if (j >= n) {
              wrong += got == old ? 0 : 1;  // between the rows nothing is written
              continue;
            }
            const double value = expected[i * n + j] + (beta != 0 ? old : 0);
            const double close = 4 *
                                 static_cast<double>(std::numeric_limits<TypeParam>::epsilon()) *
                                 (sizes[i * n + j] + std::fabs(value) + 1);
            wrong += std::fabs(got - value) <= close ? 0 : 1;
          }
        }
        EXPECT_EQ(wrong, 0U) << table.name << " " << m << " x " << n << " x " << k << ", lda "
                             << lda << " ldb " << ldb << " ldc " << ldc << ", how " << how;
      }
    }
  }
}

TYPED_TEST(MatrixProduct, OfNothingIsBetaTimesC) {
  for (const Table& table : tables_of_this_machine()) {
    for (const TypeParam beta : {TypeParam{0}, TypeParam{1}}) {
      std::vector<TypeParam> c = {1, 2, 3, 4, 5, 6};
      const TypeParam nothing = 0;
      kernels_of<TypeParam>(table).product(false, false, 2, 3, 0, &nothing, 1, &nothing, 3, beta,
                                           c.data(), 3);
      for (std::size_t i = 0; i < c.size(); ++i)
        EXPECT_EQ(c[i], beta * static_cast<TypeParam>(i + 1)) << table.name;
    }
  }
}

const bool kChosenByUser = std::getenv("OPENBLAS_CORETYPE") != nullptr;

/// A release knows only older processors, and falls back to SSE3 on others.
TEST(OpenBlas, UsesTheInstructionSetOfTheProcessor) {
  const OpenBlas* const blas = open_blas();
  if (blas == nullptr) GTEST_SKIP() << "this machine has no OpenBLAS";
  if (kChosenByUser) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  EXPECT_EQ(describe_products(), "OpenBLAS " + blas->version + " (" + blas->core + ")");
  EXPECT_THAT(blas->version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  const std::string isa = table().name;
  if (isa == "avx512") {
    EXPECT_EQ(blas->core, "SkylakeX");
  }
  if (isa == "avx2") {
    EXPECT_EQ(blas->core, "Haswell");
  }
}

}  // namespace matrix_product_test
}  // namespace training::test
