// SPDX-License-Identifier: Apache-2.0
// What the backward kernels compute is the slope of the forward kernels: in f64, by central
// differences, for every element.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernel_tables.hpp"
#include "model/linear.hpp"
#include "model/loss.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace kernel_gradients_test {

using Numbers = std::vector<double>;

double product_of(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// `gradient` is that of value() by `at`, which value() reads.
void expect_slope(const char* name, Numbers& at, const Numbers& gradient,
                  const std::function<double()>& value) {
  ASSERT_EQ(at.size(), gradient.size());
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double middle = at[i];
    at[i] = middle + kStep;
    const double above = value();
    at[i] = middle - kStep;
    const double below = value();
    at[i] = middle;
    const double slope = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope, 1e-7 * (1 + std::fabs(slope))) << name << " " << i;
  }
}

class KernelGradients : public testing::Test {
 protected:
  Numbers numbers(std::size_t count) { return normals<double>(count, random); }
  std::mt19937_64 random{coll::test::test_seed()};
  const Kernels<double>& k = kernels<double>();
};

TEST_F(KernelGradients, LayerNorm) {
  constexpr std::size_t kRows = 5, kColumns = 19;
  Numbers x = numbers(kRows * kColumns), gain = numbers(kColumns), bias = numbers(kColumns);
  const Numbers dy = numbers(x.size()), before = numbers(x.size());
  Numbers y(x.size()), mean(kRows), scale(kRows), dx = before, dgain(kColumns, 7),
                                                  dbias(kColumns, 7);
  const auto value = [&] {
    k.layer_norm(kRows, kColumns, x.data(), gain.data(), bias.data(), y.data(), mean.data(),
                 scale.data());
    return product_of(y, dy);
  };
  value();
  k.layer_norm_backward(kRows, kColumns, x.data(), gain.data(), mean.data(), scale.data(),
                        dy.data(), dx.data(), dgain.data(), dbias.data());
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] -= before[i];  // it adds
  expect_slope("x", x, dx, value);
  expect_slope("gain", gain, dgain, value);
  expect_slope("bias", bias, dbias, value);
}

TEST_F(KernelGradients, Gelu) {
  Numbers x = numbers(203);
  x[0] = 0;
  x[1] = 30;
  x[2] = -30;
  const Numbers dy = numbers(x.size());
  Numbers y(x.size()), dx(x.size());
  const auto value = [&] {
    k.gelu(x.size(), x.data(), y.data());
    return product_of(y, dy);
  };
  k.gelu_backward(x.size(), x.data(), dy.data(), dx.data());
  expect_slope("x", x, dx, value);
  Numbers in_place = dy;
  k.gelu_backward(x.size(), x.data(), in_place.data(), in_place.data());
  EXPECT_EQ(in_place, dx);
}

TEST_F(KernelGradients, Loss) {
  constexpr std::size_t kRows = 9, kColumns = 21;
  constexpr double kFactor = 0.3;
  Numbers x = numbers(kRows * kColumns), sums(2 * kRows), maxima(kRows), work;
  auto targets = some_targets(kRows, kColumns, random);
  targets[0] = 0;
  targets[1] = kColumns - 1;
  targets[2] = -1;
  const Batch batch{kRows, 1, {}, targets};
  const LossColumns<double> columns{.columns = kColumns};
  const auto value = [&] {
    Outcome outcome;
    work = x;
    loss_forward(columns, batch, work.data(), sums.data(), maxima.data(), outcome);
    return kFactor * outcome.loss;
  };
  value();
  loss_backward(columns, batch, sums.data(), kFactor, work.data());
  for (std::size_t i = 0; i < kColumns; ++i) EXPECT_EQ(work[2 * kColumns + i], 0);
  const Numbers gradient = work;
  expect_slope("logits", x, gradient, value);
}

TEST_F(KernelGradients, Attention) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 9, 2, 3}, AttentionShape{1, 1, 1, 5}, AttentionShape{1, 17, 3, 1}}) {
    const std::size_t rows = shape.sequences * shape.tokens, wide = shape.heads * shape.width;
    Numbers qkv = numbers(rows * shape.stride());
    const Numbers dout = numbers(rows * wide);
    Numbers p(shape.probabilities()), out(rows * wide), dqkv(qkv.size(), 7),
        ds(shape.tokens * shape.tokens, 7);
    const auto value = [&] {
      k.attention(shape, k.product, qkv.data(), p.data(), out.data());
      return product_of(out, dout);
    };
    value();
    k.attention_backward(shape, k.product, qkv.data(), p.data(), dout.data(), dqkv.data(),
                         ds.data());
    expect_slope("qkv", qkv, dqkv, value);
  }
}

TEST_F(KernelGradients, Linear) {
  const LinearShape shape{7, 5, 11};
  Numbers x = numbers(shape.rows * shape.in), w = numbers(shape.out * shape.in),
          bias = numbers(shape.out);
  const Numbers dy = numbers(shape.rows * shape.out);
  Numbers y(dy.size()), dx(x.size(), 7), dw(w.size(), 7), dbias(bias.size(), 7);
  const auto value = [&] {
    linear(shape, x.data(), w.data(), bias.data(), y.data());
    return product_of(y, dy);
  };
  linear_backward_input(shape, dy.data(), w.data(), dx.data());
  linear_backward_weights(shape, x.data(), dy.data(), dw.data());
  k.sum_rows(shape.rows, shape.out, dy.data(), dbias.data());
  expect_slope("x", x, dx, value);
  expect_slope("w", w, dw, value);
  expect_slope("bias", bias, dbias, value);
}

}  // namespace kernel_gradients_test
}  // namespace training::test
