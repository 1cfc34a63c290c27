// SPDX-License-Identifier: Apache-2.0
// Measures the share of a step in which the stages of a pipeline are idle, and how many
// micro-batches a stage holds, beside the formulas of pipeline.hpp. Computation is virtual
// (sleeping_unit.hpp).
#pragma once
#include <chrono>
#include <collectives/collectives.hpp>
#include <vector>

#include "../parallel/pipeline.hpp"

namespace training {

struct BubbleOptions {
  std::vector<std::size_t> leaves = {4, 8, 16};
  /// Of a stage: every number of stages computes for equally long.
  std::chrono::nanoseconds forward = std::chrono::milliseconds(4);
  std::size_t steps = 7;  ///< medians count
};

struct BubbleResult {
  PipelineKind kind = PipelineKind::gpipe;
  std::size_t stages = 0, leaves = 0;
  double idle = 0, formula = 0;
  std::size_t in_flight = 0;  ///< at most, between their forward and backward pass; on any stage
};

/// All ranks of `world` call it with the same options, and get the same; each is a stage, of 1, 2,
/// 4 or 8. A step is idle but for its sleep: what the stages do otherwise counts as idle too.
std::vector<BubbleResult> measure_bubble(collectives::Communicator world,
                                         const BubbleOptions& options);

}  // namespace training
