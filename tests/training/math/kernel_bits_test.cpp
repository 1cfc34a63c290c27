// SPDX-License-Identifier: Apache-2.0
// All instruction sets give the same bits, on sizes that no vector divides. Products of matrices
// are the exception, so all take the same one here.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "kernel_tables.hpp"
#include "math/number_format.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace kernel_bits_test {

template <class Real>
using Results = std::vector<std::vector<Real>>;

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// All tables compute the same from the same inputs, some of which are huge, tiny, infinite or NaN.
template <class Real>
void expect_same(const std::function<Results<Real>(const Table&)>& results) {
  const std::vector<Table> tables = tables_of_this_machine();
  const Results<Real> expected = results(tables[0]);
  for (const Table& table : tables) {
    const Results<Real> others = results(table);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same_bits(others[i], expected[i])) << table.name << ", result " << i;
  }
}

template <class Real>
class KernelBits : public testing::Test {
 protected:
  using Values = std::vector<Real>;
  Values numbers(std::size_t count) { return normals<Real>(count, random); }
  /// Numbers of all sizes.
  Values wild(std::size_t count) {
    Values values = normals<Real>(count, random, 5);
    for (Real& value : values) {
      if (random() % 8 == 0) value *= Real{1e20F};
      if (random() % 8 == 0) value *= Real{1e-30F};
    }
    return values;
  }
  std::mt19937_64 random{coll::test::test_seed()};
  Product<Real> product = kernels_of<Real>(baseline::make_table()).product;
};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelBits, Reals);

TYPED_TEST(KernelBits, LayerNorm) {
  for (const std::size_t columns : {1U, 7U, 16U, 33U, 131U}) {
    const std::size_t rows = 5;
    const auto x = this->numbers(rows * columns), dy = this->numbers(rows * columns),
               gain = this->numbers(columns), bias = this->numbers(columns);
    expect_same<TypeParam>([&](const Table& table) {
      const auto& k = kernels_of<TypeParam>(table);
      std::vector<TypeParam> y(x.size()), mean(rows), scale(rows), dx = x, dgain(columns),
                                                                   dbias(columns);
      k.layer_norm(rows, columns, x.data(), gain.data(), bias.data(), y.data(), mean.data(),
                   scale.data());
      k.layer_norm_backward(rows, columns, x.data(), gain.data(), mean.data(), scale.data(),
                            dy.data(), dx.data(), dgain.data(), dbias.data());
      return Results<TypeParam>{y, mean, scale, dx, dgain, dbias};
    });
  }
}

TYPED_TEST(KernelBits, Gelu) {
  for (const std::size_t n : {1U, 17U, 63U, 1001U}) {
    const auto x = this->wild(n), dy = this->numbers(n);
    expect_same<TypeParam>([&](const Table& table) {
      const auto& k = kernels_of<TypeParam>(table);
      std::vector<TypeParam> y(n), dx(n);
      k.gelu(n, x.data(), y.data());
      k.gelu_backward(n, x.data(), dy.data(), dx.data());
      return Results<TypeParam>{y, dx};
    });
  }
}

TYPED_TEST(KernelBits, Loss) {
  for (const std::size_t columns : {1U, 10U, 63U, 130U}) {
    const std::size_t rows = 9;
    const auto x = this->wild(rows * columns);
    const auto targets = some_targets(rows, columns, this->random);
    expect_same<TypeParam>([&](const Table& table) {
      const auto& k = kernels_of<TypeParam>(table);
      std::vector<TypeParam> maxima(rows), sums(rows), e = x;
      k.row_maxima(rows, columns, x.data(), maxima.data());
      k.row_exponentials(rows, columns, maxima.data(), e.data(), sums.data());
      auto gradient = e;
      k.cross_entropy_backward(rows, columns, 0, targets.data(), sums.data(), TypeParam(0.3F),
                               gradient.data());
      return Results<TypeParam>{maxima, sums, e, gradient};
    });
  }
}

TYPED_TEST(KernelBits, Attention) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 37, 2, 5}, AttentionShape{1, 64, 1, 32}, AttentionShape{1, 1, 3, 17}}) {
    const std::size_t rows = shape.sequences * shape.tokens, wide = shape.heads * shape.width;
    const auto qkv = this->numbers(rows * shape.stride()), dout = this->numbers(rows * wide);
    expect_same<TypeParam>([&](const Table& table) {
      const auto& k = kernels_of<TypeParam>(table);
      std::vector<TypeParam> p(shape.probabilities()), out(rows * wide), dqkv(qkv.size()),
          ds(shape.tokens * shape.tokens);
      k.attention(shape, this->product, qkv.data(), p.data(), out.data());
      k.attention_backward(shape, this->product, qkv.data(), p.data(), dout.data(), dqkv.data(),
                           ds.data());
      return Results<TypeParam>{p, out, dqkv};
    });
  }
}

TYPED_TEST(KernelBits, Rows) {
  constexpr std::size_t kRows = 7, kColumns = 45;
  const auto x = this->wild(kRows * kColumns), bias = this->wild(kColumns);
  expect_same<TypeParam>([&](const Table& table) {
    const auto& k = kernels_of<TypeParam>(table);
    std::vector<TypeParam> filled(x.size()), added = x, doubled = x, sums(kColumns);
    k.fill_rows(kRows, kColumns, bias.data(), filled.data());
    k.add_rows(kRows, kColumns, bias.data(), added.data());
    k.add(x.size(), x.data(), doubled.data());
    k.sum_rows(kRows, kColumns, x.data(), sums.data());
    return Results<TypeParam>{filled, added, doubled, sums};
  });
}

using FloatBits = KernelBits<float>;

TEST_F(FloatBits, AdamAndSquares) {
  for (const std::size_t n : {1U, 15U, 129U, 1001U}) {
    const auto g = wild(n), w = numbers(n), m = wild(n);
    auto v = wild(n);
    for (float& value : v) value = std::fabs(value);
    const AdamStep step{.scale = 0.3F,
                        .rate = 1e-3F,
                        .decay = 0.1F,
                        .step_size = 1e-2F,
                        .root_of_correction = 0.3F};
    expect_same<float>([&](const Table& table) {
      auto w1 = w, m1 = m, v1 = v;
      table.adam(step, n, g.data(), w1.data(), m1.data(), v1.data());
      return Results<float>{w1, m1, v1};
    });
    expect_same<double>([&](const Table& table) {
      std::vector<double> sums((n + 15) / 16);
      table.squares(n, g.data(), sums.data());
      return Results<double>{sums};
    });
  }
}

TEST_F(FloatBits, Conversions) {
  constexpr std::size_t kCount = 100003;
  std::vector<float> x(kCount);
  std::vector<std::uint16_t> a(kCount), b(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    a[i] = static_cast<std::uint16_t>(random());
    b[i] = static_cast<std::uint16_t>(random());
  }
  // Which NaN a sum of two NaN is depends on the order that the compiler chose for the operands.
  const auto no_nan = [](std::vector<std::uint16_t> bits, std::uint16_t infinity) {
    for (auto& value : bits)
      if ((value & 0x7fffU) > infinity) value = 0xffff;
    return bits;
  };
  const auto numbers_of = [](const Table& table, Format format) {
    return table.numbers[static_cast<std::size_t>(format)];
  };
  expect_same<float>([&](const Table& table) {
    std::vector<float> bf16(kCount), f16(kCount);
    numbers_of(table, Format::bf16).widen(kCount, a.data(), bf16.data());
    numbers_of(table, Format::f16).widen(kCount, a.data(), f16.data());
    return Results<float>{bf16, f16};
  });
  expect_same<std::uint16_t>([&](const Table& table) {
    std::vector<std::uint16_t> bf16(kCount), f16(kCount), sums_bf16 = b, sums_f16 = b;
    numbers_of(table, Format::bf16).narrow(kCount, x.data(), bf16.data());
    numbers_of(table, Format::f16).narrow(kCount, x.data(), f16.data());
    numbers_of(table, Format::bf16).add(kCount, a.data(), sums_bf16.data());
    numbers_of(table, Format::f16).add(kCount, a.data(), sums_f16.data());
    return Results<std::uint16_t>{bf16, f16, no_nan(sums_bf16, 0x7f80), no_nan(sums_f16, 0x7c00)};
  });
}

}  // namespace kernel_bits_test
}  // namespace training::test
