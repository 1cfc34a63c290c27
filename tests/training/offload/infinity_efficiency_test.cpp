// SPDX-License-Identifier: Apache-2.0
// The model of efficiency against numbers of the paper (arXiv 2104.07857, figure 2a, section 4.2),
// whose devices reach 70 Tflop/s.
#include "offload/infinity_efficiency.hpp"

#include <gtest/gtest.h>

namespace training::infinity {
namespace infinity_efficiency_test {

constexpr double kPeak = 70e12, kTebi = 1024.0 * 1024 * 1024 * 1024;

TEST(InfinityEfficiency, ModelsHaveThePapersSizes) {
  struct Row {
    double layers, hidden_ki, parameters, tebibytes;
  };
  for (const Row& row : {Row{80, 10, 0.10e12, 1.83}, Row{100, 20, 0.50e12, 9.16},
                         Row{128, 25, 1.01e12, 18.31}, Row{195, 64, 10.05e12, 182.81}}) {
    const double found = parameters(row.layers, row.hidden_ki * 1024);
    EXPECT_NEAR(found, row.parameters, 0.01 * row.parameters);
    EXPECT_NEAR(bytes_of_model(found) / kTebi, row.tebibytes, 0.005 * row.tebibytes);
  }
}

TEST(InfinityEfficiency, ParametersNeed70GigabytesPerSecond) {
  EXPECT_GT(efficiency(ait_of_parameters(1024, 1), 70e9, kPeak), 0.5);
  EXPECT_LT(efficiency(ait_of_parameters(1024, 1), 60e9, kPeak), 0.5);
}

TEST(InfinityEfficiency, StatesNeedFourTimesTheBandwidth) {
  EXPECT_DOUBLE_EQ(bandwidth_for(0.5, ait_of_states(1024, 1), kPeak),
                   4 * bandwidth_for(0.5, ait_of_parameters(1024, 1), kPeak));
  EXPECT_GT(efficiency(ait_of_states(1024, 2), 1.5e12, kPeak), 0.9);
}

TEST(InfinityEfficiency, ActivationsNeedTwoGigabytesPerSecond) {
  EXPECT_GT(efficiency(ait_of_activations(2048, 1), 2e9, kPeak), 0.5);
  EXPECT_GT(efficiency(ait_of_activations(8192, 1), 1e9, kPeak), 0.5);
}

TEST(InfinityEfficiency, BandwidthIsTheInverseOfEfficiency) {
  for (const double wanted : {0.1, 0.5, 0.99})
    EXPECT_NEAR(efficiency(300, bandwidth_for(wanted, 300, kPeak), kPeak), wanted, 1e-12);
}

TEST(InfinityEfficiency, CheckpointsOfEveryBlockAreItsInputs) {
  EXPECT_EQ(bytes_of_checkpoints(32, 1024, 10240, 80, 1), 2.0 * 32 * 1024 * 10240 * 80);
  EXPECT_EQ(bytes_of_checkpoints(32, 1024, 10240, 80, 4), 2.0 * 32 * 1024 * 10240 * 20);
}

}  // namespace infinity_efficiency_test
}  // namespace training::infinity
