// SPDX-License-Identifier: Apache-2.0
// Running statistics are those of a plain reference; what a forward pass is for says which
// statistics it takes, and whether it updates them.
#include "model/batch_norm.hpp"

#include <gtest/gtest.h>

#include "model/mlp.hpp"
#include "model_in_memory.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace batch_norm_test {

constexpr std::size_t kRows = 6, kPixels = 20, kHidden = 5;

struct Statistics {
  std::vector<double> mean, variance;  ///< variance: over m, not m - 1
};

/// Of the first layer's products.
Statistics statistics(const Batch& batch, const std::vector<double>& weights) {
  Statistics result;
  for (std::size_t i = 0; i < kHidden; ++i) {
    double sum = 0, squares = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      double product = 0;
      for (std::size_t k = 0; k < kPixels; ++k)
        product += weights[i * kPixels + k] * batch.inputs[row * kPixels + k] / 255;
      sum += product;
      squares += product * product;
    }
    const double mean = sum / kRows;
    result.mean.push_back(mean);
    result.variance.push_back(squares / kRows - mean * mean);
  }
  return result;
}

class BatchNorm : public testing::Test {
 protected:
  BatchNorm()
      : model_(mlp_units<double>(
            {.pixels = kPixels, .hidden = {kHidden}, .classes = 5, .batch_norm = true})) {}
  RandomBatch batch() { return {kRows, 1, kPixels, 256, 5, random_}; }
  std::vector<std::vector<double>>& buffers() { return model_.buffers()[0]; }

  std::mt19937_64 random_{coll::test::test_seed()};
  ModelInMemory<double> model_;
};

TEST_F(BatchNorm, RunningStatisticsMoveByATenth) {
  std::vector<double> mean(kHidden, 0), variance(kHidden, 1);
  for (int pass = 0; pass < 3; ++pass) {
    const RandomBatch data = batch();
    model_.forward(data.batch);
    const Statistics of = statistics(data.batch, model_.weights()[0]);
    for (std::size_t i = 0; i < kHidden; ++i) {
      mean[i] = 0.9 * mean[i] + 0.1 * of.mean[i];
      variance[i] = 0.9 * variance[i] + 0.1 * of.variance[i] * kRows / (kRows - 1);
      EXPECT_NEAR(buffers()[0][i], mean[i], 1e-12);
      EXPECT_NEAR(buffers()[1][i], variance[i], 1e-12);
    }
  }
}

TEST_F(BatchNorm, OnlyTrainingUpdatesThem) {
  const RandomBatch data = batch();
  const double loss = model_.forward(data.batch).loss;
  const auto after = buffers();
  EXPECT_EQ(model_.forward(data.batch, Mode::recompute).loss, loss);
  EXPECT_EQ(buffers(), after);
  EXPECT_NE(model_.forward(data.batch, Mode::evaluation).loss, loss);
  EXPECT_EQ(buffers(), after);
}

TEST_F(BatchNorm, EvaluationTakesThem) {
  const RandomBatch data = batch();
  const Statistics of = statistics(data.batch, model_.weights()[0]);
  buffers() = {of.mean, of.variance};
  const double loss = model_.forward(data.batch, Mode::evaluation).loss;
  EXPECT_NEAR(model_.forward(data.batch).loss, loss, 1e-9);
}

}  // namespace batch_norm_test
}  // namespace training::test
