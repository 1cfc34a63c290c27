// SPDX-License-Identifier: Apache-2.0
// Whole models: their gradients are the slopes of their loss, and become ready from the last
// parameter to the first.
#include <gtest/gtest.h>

#include <cmath>

#include "model/gpt.hpp"
#include "model/mlp.hpp"
#include "model_in_memory.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace model_gradients_test {

/// Values that reach the curved parts of every function.
void spread_weights(ModelInMemory<double>& model, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 0.3);
  for (auto& weights : model.weights())
    for (double& weight : weights) weight += normal(random);
}

/// Central differences of every element of small parameters, and of some of large ones.
void expect_slopes(ModelInMemory<double>& model, const Batch& batch, std::mt19937_64& random) {
  constexpr double kStep = 1e-5, kFactor = 0.25;
  spread_weights(model, random);
  model.forward(batch);
  const std::vector<std::size_t> order = model.backward(batch, kFactor);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], order.size() - 1 - i);
  EXPECT_EQ(order.size(), model.infos().size());
  const auto gradients = model.gradients();
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    std::vector<double>& weights = model.weights()[p];
    const std::size_t stride = 1 + weights.size() / 40;
    for (std::size_t i = random() % stride; i < weights.size(); i += stride) {
      const double middle = weights[i];
      weights[i] = middle + kStep;
      const double above = model.forward(batch).loss;
      weights[i] = middle - kStep;
      const double below = model.forward(batch).loss;
      weights[i] = middle;
      const double slope = kFactor * (above - below) / (2 * kStep);
      EXPECT_NEAR(gradients[p][i], slope, 1e-6 * (1 + std::fabs(slope)))
          << model.infos()[p].name << " " << i;
    }
  }
}

TEST(ModelGradients, Gpt) {
  std::mt19937_64 random(coll::test::test_seed());
  ModelInMemory<double> model(gpt_units<double>(
      {.vocabulary = 11, .positions = 8, .channels = 12, .blocks = 2, .heads = 3}));
  // Seven tokens of eight positions: the last position's gradient is 0.
  const RandomBatch data(3, 7, 1, 11, 11, random);
  expect_slopes(model, data.batch, random);
}

TEST(ModelGradients, Mlp) {
  std::mt19937_64 random(coll::test::test_seed());
  for (const std::vector<std::size_t>& hidden : {std::vector<std::size_t>{9, 7}, {}, {5}}) {
    ModelInMemory<double> model(mlp_units<double>({.pixels = 20, .hidden = hidden, .classes = 5}));
    const RandomBatch data(6, 1, 20, 256, 5, random);
    expect_slopes(model, data.batch, random);
  }
}

TEST(ModelGradients, MlpWithBatchNormalisation) {
  std::mt19937_64 random(coll::test::test_seed());
  for (const std::vector<std::size_t>& hidden : {std::vector<std::size_t>{9, 7}, {5}}) {
    ModelInMemory<double> model(
        mlp_units<double>({.pixels = 20, .hidden = hidden, .classes = 5, .batch_norm = true}));
    const RandomBatch data(6, 1, 20, 256, 5, random);
    expect_slopes(model, data.batch, random);
  }
}

TEST(ModelGradients, AreSumsOverBatches) {
  std::mt19937_64 random(coll::test::test_seed());
  ModelInMemory<double> model(gpt_units<double>(
      {.vocabulary = 11, .positions = 8, .channels = 12, .blocks = 1, .heads = 3}));
  const RandomBatch data(4, 8, 1, 11, 11, random);
  const auto part = [&](std::size_t first) {
    return Batch{2, 8, data.batch.inputs.subspan(first, 16), data.batch.targets.subspan(first, 16)};
  };
  const Outcome whole = model.forward(data.batch);
  model.backward(data.batch, 1);
  auto rest = model.gradients();
  Outcome halves;
  for (const std::size_t first : {0U, 16U}) {
    const Outcome half = model.forward(part(first));
    halves.loss += half.loss;
    halves.rows += half.rows;
    halves.right += half.right;
    model.backward(part(first), 1);
    for (std::size_t p = 0; p < rest.size(); ++p)
      for (std::size_t i = 0; i < rest[p].size(); ++i) rest[p][i] -= model.gradients()[p][i];
  }
  EXPECT_NEAR(whole.loss, halves.loss, 1e-10);
  EXPECT_EQ(whole.rows, halves.rows);
  EXPECT_EQ(whole.right, halves.right);
  for (const auto& parameter : rest)
    for (const double difference : parameter) EXPECT_NEAR(difference, 0, 1e-12);
}

TEST(Gpt, HasTheParametersOfTheFormula) {
  const auto count = [](const GptShape& shape) {
    std::size_t size = 0;
    for (const auto& unit : gpt_units<float>(shape)) size += unit->size();
    EXPECT_EQ(size, shape.parameters());
    return size;
  };
  EXPECT_EQ(count({.vocabulary = 63, .positions = 64, .channels = 128, .blocks = 4, .heads = 4}),
            817664U);
  EXPECT_EQ(count({.vocabulary = 5, .positions = 3, .channels = 6, .blocks = 0, .heads = 2}),
            2U * 5 * 6 + 3 * 6 + 2 * 6);
}

TEST(Gpt, BeginsAtTheLossOfAGuess) {
  std::mt19937_64 random(coll::test::test_seed());
  ModelInMemory<float> model(gpt_units<float>(GptShape{}));
  const RandomBatch data(4, 64, 1, 63, 63, random);
  const Outcome outcome = model.forward(data.batch);
  EXPECT_EQ(outcome.rows, count_rows(data.batch));
  // Logits are normal with a deviation of 0.02 sqrt(C) = 0.23, which adds half its square.
  EXPECT_NEAR(outcome.loss / static_cast<double>(outcome.rows), std::log(63) + 0.026, 0.1);
}

}  // namespace model_gradients_test
}  // namespace training::test
