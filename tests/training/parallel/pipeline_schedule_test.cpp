// SPDX-License-Identifier: Apache-2.0
// Schedules of pipelines: complete, in order, free of deadlock, as idle and as full as the papers'
// formulas; and units are divided as evenly as can be.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "parallel/pipeline.hpp"
#include "test_seed.hpp"

namespace training {
namespace pipeline_schedule_test {

constexpr PipelineKind kKinds[] = {PipelineKind::gpipe, PipelineKind::one_forward_one_backward};

/// Calls check(kind, stages, leaves) for all pipelines of up to 8 stages and 16 micro-batches.
template <class Check>
void for_all_pipelines(Check check) {
  for (const PipelineKind kind : kKinds) {
    for (std::size_t stages = 1; stages <= 8; ++stages) {
      for (std::size_t leaves = 1; leaves <= 16; ++leaves) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", " << stages
                                        << " stages, " << leaves << " micro-batches");
        check(kind, stages, leaves);
      }
    }
  }
}

TEST(PipelineSchedule, EachMicroBatchPassesForwardThenBackwardOnceAndInOrder) {
  for_all_pipelines([](PipelineKind kind, std::size_t stages, std::size_t leaves) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      std::size_t forward = 0, backward = 0;
      for (const Action& action : pipeline_schedule(kind, stage, stages, leaves)) {
        EXPECT_EQ(action.leaf, action.forward ? forward : backward);
        ++(action.forward ? forward : backward);
        EXPECT_LE(backward, forward);
      }
      EXPECT_EQ(forward, leaves);
      EXPECT_EQ(backward, leaves);
    }
  });
}

TEST(PipelineSchedule, HoldsAsManyMicroBatchesAsThePapersSay) {
  for_all_pipelines([](PipelineKind kind, std::size_t stages, std::size_t leaves) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const auto schedule = pipeline_schedule(kind, stage, stages, leaves);
      const std::size_t most =
          kind == PipelineKind::gpipe && stages > 1 ? leaves : std::min(leaves, stages - stage);
      EXPECT_EQ(in_flight(schedule), most);
    }
  });
}

/// When each pass ends if a forward pass takes `forward` and a backward pass `backward`, and a pass
/// waits for its input alone; none if the stages wait for each other for ever.
std::optional<std::size_t> run(PipelineKind kind, std::size_t stages, std::size_t leaves,
                               std::size_t forward, std::size_t backward) {
  using Ends = std::vector<std::vector<std::size_t>>;  // [stage][leaf]; 0: not yet
  Ends of_forward(stages, std::vector<std::size_t>(leaves)), of_backward = of_forward;
  std::vector<std::vector<Action>> schedules;
  for (std::size_t stage = 0; stage < stages; ++stage)
    schedules.push_back(pipeline_schedule(kind, stage, stages, leaves));
  std::vector<std::size_t> next(stages), now(stages);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      while (next[stage] < schedules[stage].size()) {
        const Action& action = schedules[stage][next[stage]];
        const bool alone = action.forward ? stage == 0 : stage + 1 == stages;
        const std::size_t input = alone            ? 1
                                  : action.forward ? of_forward[stage - 1][action.leaf]
                                                   : of_backward[stage + 1][action.leaf];
        if (input == 0) break;
        now[stage] =
            std::max(now[stage], alone ? 0 : input) + (action.forward ? forward : backward);
        (action.forward ? of_forward : of_backward)[stage][action.leaf] = now[stage];
        ++next[stage];
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < stages; ++stage)
    if (next[stage] < schedules[stage].size()) return std::nullopt;
  return *std::ranges::max_element(now);
}

TEST(PipelineSchedule, NeverDeadlocksAndIsIdleForTheBubble) {
  for_all_pipelines([](PipelineKind kind, std::size_t stages, std::size_t leaves) {
    const auto end = run(kind, stages, leaves, 1, 2);
    ASSERT_TRUE(end.has_value()) << "the stages wait for each other";
    EXPECT_EQ(*end, 3 * (leaves + stages - 1));
    const double idle = 1 - 3.0 * static_cast<double>(leaves) / static_cast<double>(*end);
    EXPECT_NEAR(bubble(stages, leaves), idle, 1e-12);
  });
}

/// The least possible maximum, by trying every division.
double best(std::span<const double> costs, std::size_t stages) {
  if (stages == 1) {
    double all = 0;
    for (const double cost : costs) all += cost;
    return all;
  }
  double least = std::numeric_limits<double>::infinity(), first = 0;
  for (std::size_t end = 1; end + stages - 1 <= costs.size(); ++end) {
    first += costs[end - 1];
    least = std::min(least, std::max(first, best(costs.subspan(end), stages - 1)));
  }
  return least;
}

TEST(DivideUnits, IsAsEvenAsAnyDivision) {
  std::mt19937_64 random(coll::test::test_seed());
  for (int i = 0; i < 300; ++i) {
    std::vector<double> costs(1 + random() % 10);
    for (double& cost : costs) cost = static_cast<double>(1 + random() % 20);
    for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
      const auto begins = divide_units(costs, stages);
      ASSERT_EQ(begins.size(), stages + 1);
      EXPECT_EQ(begins.front(), 0U);
      EXPECT_EQ(begins.back(), costs.size());
      double most = 0;
      for (std::size_t stage = 0; stage < stages; ++stage) {
        ASSERT_LT(begins[stage], begins[stage + 1]) << "a stage without units";
        double cost = 0;
        for (std::size_t unit = begins[stage]; unit < begins[stage + 1]; ++unit)
          cost += costs[unit];
        most = std::max(most, cost);
      }
      EXPECT_EQ(most, best(costs, stages));
    }
  }
}

}  // namespace pipeline_schedule_test
}  // namespace training
