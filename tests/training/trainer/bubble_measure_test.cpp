// SPDX-License-Identifier: Apache-2.0
// The measured bubble: hardly ever less than the formula's, as passes that sleep last as long as
// they should. How much more it is depends on the machine.
#include "measure/bubble_measure.hpp"

#include <gtest/gtest.h>

#include "../training_ranks.hpp"

namespace training {
namespace bubble_measure_test {

TEST(BubbleMeasure, StagesAreIdleForTheFormulasShareAtLeast) {
  for (const std::size_t stages : {2U, 4U}) {
    on_ranks(stages, [&](collectives::Communicator world) {
      const bool first = world.rank() == 0;
      const auto results =
          measure_bubble(std::move(world),
                         {.leaves = {2, 6}, .forward = std::chrono::milliseconds(4), .steps = 3});
      if (!first) return;
      EXPECT_EQ(results.size(), 4U);
      for (const BubbleResult& result : results) {
        SCOPED_TRACE(testing::Message()
                     << stages << " stages, " << result.leaves << " micro-batches, kind "
                     << static_cast<int>(result.kind));
        EXPECT_GE(result.idle, result.formula - 0.02);
        EXPECT_LT(result.idle, 1);
        EXPECT_EQ(result.formula, bubble(stages, result.leaves));
        EXPECT_EQ(result.in_flight, result.kind == PipelineKind::gpipe
                                        ? result.leaves
                                        : std::min(stages, result.leaves));
      }
    });
  }
}

}  // namespace bubble_measure_test
}  // namespace training
