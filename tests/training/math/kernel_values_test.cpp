// SPDX-License-Identifier: Apache-2.0
// The forward kernels, in f32 and f64 and for every instruction set, beside plain code in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel_tables.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace kernel_values_test {

template <class Real>
class KernelValues : public testing::Test {
 protected:
  /// A few roundings of numbers of size 1.
  static constexpr double kClose = 64 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  std::vector<Real> numbers(std::size_t count, double deviation = 1) {
    return normals<Real>(count, random, deviation);
  }
  std::mt19937_64 random{coll::test::test_seed()};
  const std::vector<Table> tables = tables_of_this_machine();
};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelValues, Reals);

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
}

/// The softmax of `n` numbers.
std::vector<double> softmax_of(std::vector<double> x) {
  double most = x[0], sum = 0;
  for (const double value : x) most = std::max(most, value);
  for (double& value : x) sum += value = std::exp(value - most);
  for (double& value : x) value /= sum;
  return x;
}

TYPED_TEST(KernelValues, LayerNorm) {
  constexpr std::size_t kRows = 3, kColumns = 131;
  const auto x = this->numbers(kRows * kColumns), gain = this->numbers(kColumns),
             bias = this->numbers(kColumns);
  for (const Table& table : this->tables) {
    std::vector<TypeParam> y(x.size()), mean(kRows), scale(kRows);
    kernels_of<TypeParam>(table).layer_norm(kRows, kColumns, x.data(), gain.data(), bias.data(),
                                            y.data(), mean.data(), scale.data());
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < kColumns; ++i) sum += double(x[row * kColumns + i]);
      const double middle = sum / kColumns;
      for (std::size_t i = 0; i < kColumns; ++i)
        squares += std::pow(double(x[row * kColumns + i]) - middle, 2);
      const double share = 1 / std::sqrt(squares / kColumns + 1e-5);
      EXPECT_NEAR(double(mean[row]), middle, this->kClose);
      EXPECT_NEAR(double(scale[row]), share, this->kClose);
      for (std::size_t i = 0; i < kColumns; ++i) {
        const double expected =
            (double(x[row * kColumns + i]) - middle) * share * double(gain[i]) + double(bias[i]);
        EXPECT_NEAR(double(y[row * kColumns + i]), expected, this->kClose) << table.name;
      }
    }
  }
}

TYPED_TEST(KernelValues, Gelu) {
  auto x = this->numbers(1003, 3);
  for (const double end : {0.0, 1e-8, -1e-8, 10.0, -10.0, 100.0, -100.0, 1e6, -1e6})
    x.push_back(static_cast<TypeParam>(end));
  for (const Table& table : this->tables) {
    std::vector<TypeParam> y(x.size());
    kernels_of<TypeParam>(table).gelu(x.size(), x.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = gelu_of(double(x[i]));
      EXPECT_NEAR(double(y[i]), expected, this->kClose * (1 + std::fabs(expected))) << x[i];
    }
  }
}

TYPED_TEST(KernelValues, Exponential) {
  std::vector<TypeParam> x;
  for (int i = -8600; i <= 0; ++i) x.push_back(static_cast<TypeParam>(i) / 100);
  const TypeParam none = 0;
  for (const Table& table : this->tables) {
    std::vector<TypeParam> e = x;
    TypeParam sum = 0;
    kernels_of<TypeParam>(table).row_exponentials(1, x.size(), &none, e.data(), &sum);
    double expected_sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(double(x[i]));
      EXPECT_NEAR(double(e[i]) / expected, 1, 2.5e-7) << x[i];
      expected_sum += expected;
    }
    EXPECT_NEAR(double(sum) / expected_sum, 1, this->kClose);
    // What no normal f32 can hold is 0, and the largest value is 1.
    TypeParam far[] = {-1000, -std::numeric_limits<TypeParam>::infinity(), 0};
    kernels_of<TypeParam>(table).row_exponentials(1, 3, &none, far, &sum);
    EXPECT_EQ(far[0], 0);
    EXPECT_EQ(far[1], 0);
    EXPECT_EQ(far[2], 1);
  }
}

TYPED_TEST(KernelValues, RowMaxima) {
  const auto x = this->numbers(5 * 37);
  for (const Table& table : this->tables) {
    std::vector<TypeParam> maxima(5);
    kernels_of<TypeParam>(table).row_maxima(5, 37, x.data(), maxima.data());
    for (std::size_t row = 0; row < 5; ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * 37);
      EXPECT_EQ(maxima[row], *std::max_element(begin, begin + 37));
    }
  }
}

TYPED_TEST(KernelValues, Attention) {
  const AttentionShape shape{2, 19, 3, 5};
  const std::size_t wide = shape.heads * shape.width;
  const auto qkv = this->numbers(shape.sequences * shape.tokens * shape.stride());
  const auto at = [&](std::size_t s, std::size_t t, std::size_t third, std::size_t h,
                      std::size_t i) {
    return double(
        qkv[(s * shape.tokens + t) * shape.stride() + third * wide + h * shape.width + i]);
  };
  for (const Table& table : this->tables) {
    const auto& k = kernels_of<TypeParam>(table);
    std::vector<TypeParam> p(shape.probabilities()), out(shape.sequences * shape.tokens * wide);
    k.attention(shape, k.product, qkv.data(), p.data(), out.data());
    for (std::size_t s = 0; s < shape.sequences; ++s) {
      for (std::size_t h = 0; h < shape.heads; ++h) {
        for (std::size_t t = 0; t < shape.tokens; ++t) {
          std::vector<double> scores(t + 1);
          for (std::size_t u = 0; u <= t; ++u) {
            for (std::size_t i = 0; i < shape.width; ++i)
              scores[u] += at(s, t, 0, h, i) * at(s, u, 1, h, i);
            scores[u] /= std::sqrt(static_cast<double>(shape.width));
          }
          scores = softmax_of(scores);
          const TypeParam* row =
              p.data() + ((s * shape.heads + h) * shape.tokens + t) * shape.tokens;
          for (std::size_t u = 0; u < shape.tokens; ++u)
            EXPECT_NEAR(double(row[u]), u <= t ? scores[u] : 0, this->kClose);
          for (std::size_t i = 0; i < shape.width; ++i) {
            double expected = 0;
            for (std::size_t u = 0; u <= t; ++u) expected += scores[u] * at(s, u, 2, h, i);
            EXPECT_NEAR(double(out[(s * shape.tokens + t) * wide + h * shape.width + i]), expected,
                        this->kClose);
          }
        }
      }
    }
  }
}

TYPED_TEST(KernelValues, Rows) {
  constexpr std::size_t kRows = 7, kColumns = 33;
  const auto x = this->numbers(kRows * kColumns), bias = this->numbers(kColumns);
  for (const Table& table : this->tables) {
    const auto& k = kernels_of<TypeParam>(table);
    std::vector<TypeParam> filled(x.size()), added = x, doubled = x, sums(kColumns, 7);
    k.fill_rows(kRows, kColumns, bias.data(), filled.data());
    k.add_rows(kRows, kColumns, bias.data(), added.data());
    k.add(x.size(), x.data(), doubled.data());
    k.sum_rows(kRows, kColumns, x.data(), sums.data());
    for (std::size_t i = 0; i < kColumns; ++i) {
      TypeParam sum = 0;
      for (std::size_t row = 0; row < kRows; ++row) {
        const std::size_t at = row * kColumns + i;
        EXPECT_EQ(filled[at], bias[i]);
        EXPECT_EQ(added[at], x[at] + bias[i]);
        EXPECT_EQ(doubled[at], x[at] + x[at]);
        sum += x[at];
      }
      EXPECT_EQ(sums[i], sum);
    }
  }
}

TEST(AdamKernel, IsAdamW) {
  std::mt19937_64 random(coll::test::test_seed());
  constexpr std::size_t kCount = 77;
  const auto g = normals<float>(kCount, random), w = normals<float>(kCount, random),
             m = normals<float>(kCount, random, 0.1);
  auto v = normals<float>(kCount, random, 0.1);
  for (float& value : v) value = value * value;
  const double rate = 0.01, decay = 0.1, t = 5, b1 = 0.9, b2 = 0.95, epsilon = 1e-8, scale = 0.5;
  AdamStep step{.scale = 0.5F, .rate = 0.01F, .decay = 0.1F};
  step.step_size = static_cast<float>(rate / (1 - std::pow(b1, t)));
  step.root_of_correction = static_cast<float>(std::sqrt(1 - std::pow(b2, t)));
  for (const Table& table : tables_of_this_machine()) {
    auto w1 = w, m1 = m, v1 = v;
    table.adam(step, kCount, g.data(), w1.data(), m1.data(), v1.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      const double gradient = double(g[i]) * scale;
      const double first = b1 * double(m[i]) + (1 - b1) * gradient;
      const double second = b2 * double(v[i]) + (1 - b2) * gradient * gradient;
      const double corrected = first / (1 - std::pow(b1, t));
      const double root = std::sqrt(second / (1 - std::pow(b2, t)));
      const double expected =
          double(w[i]) * (1 - rate * decay) - rate * corrected / (root + epsilon);
      EXPECT_NEAR(double(m1[i]), first, 1e-6);
      EXPECT_NEAR(double(v1[i]), second, 1e-6);
      EXPECT_NEAR(double(w1[i]), expected, 1e-6);
    }
  }
}

TEST(SquaresKernel, SumsBlocksOfSixteen) {
  std::mt19937_64 random(coll::test::test_seed());
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 100U}) {
    const auto x = normals<float>(count, random);
    for (const Table& table : tables_of_this_machine()) {
      std::vector<double> sums((count + 15) / 16, -1);
      table.squares(count, x.data(), sums.data());
      for (std::size_t block = 0; block < sums.size(); ++block) {
        double expected = 0;
        for (std::size_t i = block * 16; i < std::min(count, block * 16 + 16); ++i)
          expected += double(x[i]) * double(x[i]);
        EXPECT_NEAR(sums[block], expected, 1e-6 * (1 + expected));
      }
    }
  }
}

}  // namespace kernel_values_test
}  // namespace training::test
