// SPDX-License-Identifier: Apache-2.0
// Training with communication hooks comes to about the loss of training without. Seeds are fixed: a
// bound on a loss holds for one run, not for every run.
#include <gtest/gtest.h>

#include <limits>

#include "../overflowing_unit.hpp"
#include "../training_ranks.hpp"
#include "hooks/make_hook.hpp"
#include "model/gpt.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "trainer/trainer.hpp"

namespace training {
namespace hooks_training_test {

const GptShape kModel{16, 8, 32, 2, 2};

/// The validation loss after 60 steps on two ranks.
double loss_with(const char* hook_name, TrainerOptions options = {}) {
  options.buckets = {4096, 16384};
  options.rate = {.most = 1e-2F, .warm_up = 2};
  double loss = 0;
  on_ranks(2, [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), {.data = 2}, true);
    Arena arena;
    const auto hook = hook_name == nullptr ? nullptr : make_hook(hook_name, arena);
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    Trainer trainer(
        options, gpt_units<float>(kModel), source, mesh, arena,
        [&](Owned owned) { return std::make_unique<MemoryOptimizer>(std::move(owned), arena); },
        hook.get());
    for (std::size_t i = 0; i < 60; ++i) EXPECT_FALSE(trainer.step().skipped);
    const double own = trainer.validate(4).loss;
    if (mesh.rank() == 0) loss = own;
  });
  return loss;
}

TEST(HooksTraining, LossesAreNearThatOfPlainDataParallelism) {
  const double plain = loss_with(nullptr);
  ASSERT_LT(plain, 1.6);
  const std::pair<const char*, double> bounds[] = {
      {"bf16", 0.01}, {"f16", 0.01}, {"int8", 0.03}, {"powersgd:4", 0.15}, {"topk:10%", 0.20}};
  for (const auto& [name, bound] : bounds) {
    const double loss = loss_with(name);
    RecordProperty(name, std::to_string(loss / plain - 1));
    EXPECT_NEAR(loss / plain, 1, bound) << name << ": " << loss << ", without: " << plain;
  }
}

/// Also not by what pads parameters: 20 elements of a bias lie beside 12 that belong to none.
TEST(HooksTraining, AGradientThatIsNotFiniteIsNotCarriedOn) {
  const GptShape odd{16, 8, 20, 2, 2};
  for (const char* name : {"bf16", "int8", "powersgd:2:0", "topk:10%"}) {
    on_ranks(2, [&](collectives::Communicator world) {
      const bool strikes = world.rank() == 1;
      Mesh mesh(std::move(world), {.data = 2}, true);
      Arena arena;
      const auto hook = make_hook(name, arena);
      const RuleSource source(2, odd.positions, odd.vocabulary);
      TrainerOptions options;
      options.leaves = 2;
      auto units = gpt_units<float>(odd);
      std::map<std::string, OverflowingUnit::When> when;
      if (strikes)
        when[units[1]->name()] = {.pass = 2, .value = std::numeric_limits<float>::infinity()};
      Trainer trainer(
          options, wrap<OverflowingUnit>(std::move(units), when), source, mesh, arena,
          [&](Owned owned) { return std::make_unique<MemoryOptimizer>(std::move(owned), arena); },
          hook.get());
      for (std::size_t step = 0; step < 6; ++step)
        EXPECT_EQ(trainer.step().skipped, step == 2) << name << ", step " << step;
    });
  }
}

TEST(HooksTraining, OnlyPlainDataParallelismInF32HasHooks) {
  TrainerOptions sharded, narrow;
  sharded.zero = 1;
  narrow.gradients = Format::bf16;
  EXPECT_THROW(loss_with("bf16", sharded), Failure);
  EXPECT_THROW(loss_with("bf16", narrow), Failure);
}

}  // namespace hooks_training_test
}  // namespace training
