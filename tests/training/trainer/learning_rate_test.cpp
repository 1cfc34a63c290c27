// SPDX-License-Identifier: Apache-2.0
// The learning rate rises, falls along a cosine, and stays.
#include "trainer/learning_rate.hpp"

#include <gtest/gtest.h>

namespace training {
namespace learning_rate_test {

TEST(LearningRate, RisesLinearlyThenFallsAlongACosine) {
  const LearningRate rate{.most = 8, .least = 2, .warm_up = 4, .steps = 24};
  EXPECT_FLOAT_EQ(rate.at(0), 2);  // never 0: the first step counts
  EXPECT_FLOAT_EQ(rate.at(1), 4);
  EXPECT_FLOAT_EQ(rate.at(3), 8);
  EXPECT_FLOAT_EQ(rate.at(4), 8);
  EXPECT_FLOAT_EQ(rate.at(14), 5);  // half way
  EXPECT_NEAR(rate.at(9), 5 + 3 * std::sqrt(0.5), 1e-5);
  for (std::size_t step = 4; step < 24; ++step) EXPECT_GT(rate.at(step), rate.at(step + 1));
  EXPECT_FLOAT_EQ(rate.at(24), 2);
  EXPECT_FLOAT_EQ(rate.at(1000), 2);
}

TEST(LearningRate, WithoutAnEndStaysAtItsMost) {
  const LearningRate rate{.most = 3, .warm_up = 2};
  EXPECT_FLOAT_EQ(rate.at(0), 1.5);
  EXPECT_FLOAT_EQ(rate.at(2), 3);
  EXPECT_FLOAT_EQ(rate.at(100000), 3);
}

TEST(LearningRate, ARunWithinItsWarmUpNeverFalls) {
  const LearningRate rate{.most = 3, .warm_up = 10, .steps = 10};
  EXPECT_FLOAT_EQ(rate.at(9), 3);
  EXPECT_FLOAT_EQ(rate.at(10), 3);
}

}  // namespace learning_rate_test
}  // namespace training
