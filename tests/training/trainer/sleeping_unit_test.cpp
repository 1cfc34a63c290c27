// SPDX-License-Identifier: Apache-2.0
// Virtual compute: same shapes as the real units, gradients one by one, and the same bits wherever
// it runs.
#include "model/sleeping_unit.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "model/gpt.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "trainer/trainer.hpp"

namespace training {
namespace sleeping_unit_test {

const GptShape kModel{16, 8, 32, 2, 2};

Units<float> sleeping() {
  return sleeping_units(gpt_units<float>(kModel), std::chrono::nanoseconds(0));
}

TEST(SleepingUnits, HaveTheShapesOfTheRealOnes) {
  const auto real = gpt_units<float>(kModel), units = sleeping();
  const Batch batch{2, kModel.positions, {}, {}};
  ASSERT_EQ(units.size(), real.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    EXPECT_EQ(units[i]->name(), real[i]->name());
    EXPECT_EQ(units[i]->width(), real[i]->width());
    EXPECT_EQ(units[i]->size(), real[i]->size());
    EXPECT_EQ(units[i]->saved_size(batch), real[i]->saved_size(batch));
    EXPECT_EQ(units[i]->scratch_size(batch), real[i]->scratch_size(batch));
    ASSERT_EQ(units[i]->parameters().size(), real[i]->parameters().size());
    for (std::size_t j = 0; j < units[i]->parameters().size(); ++j)
      EXPECT_EQ(units[i]->parameters()[j].name, real[i]->parameters()[j].name);
  }
}

TEST(SleepingUnits, GradientsBecomeReadyOneByOneFromTheLast) {
  const auto units = sleeping();
  const std::vector<std::int32_t> tokens(kModel.positions, 3);
  const Batch batch{1, kModel.positions, tokens, tokens};
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    std::vector<std::vector<float>> gradients;
    std::vector<float*> pointers;
    for (const ParameterInfo& parameter : units[unit]->parameters())
      gradients.emplace_back(parameter.size());
    for (auto& gradient : gradients) pointers.push_back(gradient.data());
    std::vector<float> flow(batch.rows() * kModel.channels);
    std::size_t next = gradients.size();
    units[unit]->backward(batch, {{}, pointers, nullptr, nullptr}, nullptr, flow.data(),
                          flow.data(), 1, [&](std::size_t i) {
                            EXPECT_EQ(i, --next);
                            EXPECT_NE(gradients[i].back(), 0) << "written when it is ready";
                            if (i > 0) {
                              EXPECT_EQ(gradients[i - 1].front(), 0) << "not before";
                            }
                          });
    EXPECT_EQ(next, 0U);
  }
}

TEST(SleepingUnits, APassTakesItsTime) {
  const auto units = sleeping_units(gpt_units<float>(kModel),
                                    std::chrono::nanoseconds(std::chrono::milliseconds(3)));
  const std::vector<std::int32_t> tokens(kModel.positions, 3);
  const Batch batch{1, kModel.positions, tokens, tokens};
  EXPECT_EQ(units[1]->operations(batch), 3e6);
  std::vector<float> output(batch.rows() * kModel.channels);
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  units[1]->forward(batch, {}, output.data(), output.data(), outcome);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3));
  EXPECT_EQ(outcome.rows, 0U);
  units.back()->forward(batch, {}, output.data(), nullptr, outcome);
  EXPECT_EQ(outcome.rows, kModel.positions);
}

/// Losses, and weights by name and place.
std::pair<std::vector<double>, std::map<std::string, float>> train(MeshShape shape, int zero) {
  std::vector<double> losses;
  std::map<std::string, float> weights;
  std::mutex mutex;
  on_ranks(shape.ranks(), [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), shape, true);
    Arena arena;
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    TrainerOptions options;
    options.zero = zero;
    options.buckets = {4096, 16384};
    options.rate = {.most = 1e-2F};
    Trainer trainer(options, sleeping(), source, mesh, arena, [&](Owned owned) {
      return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
    });
    std::vector<double> own;
    for (int i = 0; i < 3; ++i) own.push_back(trainer.step().loss);
    const std::scoped_lock lock(mutex);
    losses = own;
    for_each_state(trainer, [&](const StatePart& part) {
      for (std::size_t i = 0; i < part.values.size(); ++i)
        weights[part.parameter + std::to_string(part.first + i)] = part.values[i];
    });
  });
  return {losses, weights};
}

TEST(SleepingUnits, TrainToTheSameBitsHoweverTheyAreSpread) {
  const auto alone = train({}, 0);
  EXPECT_GT(alone.first[0], 0);
  EXPECT_EQ(train({.data = 4}, 0), alone);
  EXPECT_EQ(train({.data = 2}, 3), alone);
  EXPECT_EQ(train({.data = 2, .pipeline = 2}, 0), alone);
}

}  // namespace sleeping_unit_test
}  // namespace training
