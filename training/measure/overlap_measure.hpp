// SPDX-License-Identifier: Apache-2.0
// Measures how much of a step's communication overlap hides, beside what overlap_model.hpp says.
// Computation is virtual (sleeping_unit.hpp), communication is real.
#pragma once
#include <collectives/collectives.hpp>
#include <vector>

#include "overlap_model.hpp"

namespace training {

struct OverlapOptions {
  /// Seconds of a backward pass in those of all its sums without overlap.
  std::vector<double> ratios = {0.5, 1, 2};
  std::size_t bucket_bytes = std::size_t{256} << 10U;
  /// Of the GPT of eight units: more take longer to sum. 128: 1.2 million parameters.
  std::size_t channels = 128;
  std::size_t steps = 15;  ///< of each kind; medians count
};

/// Seconds: medians of the steps.
struct OverlapResult {
  std::size_t ranks = 0, buckets = 0;
  double ratio = 0;
  Cost hidden, waited;  ///< of a sum that the library alone moves, or the waiting thread
  ComputeTimes compute;
  struct Kind {
    StepTime measured, model;
    /// Of the whole step, in the model's.
    [[nodiscard]] double deviation() const { return measured.step / model.step - 1; }
  };
  Kind overlapped, waiting;
  /// Of the step that waits for each bucket.
  [[nodiscard]] double saved() const {
    return 1 - overlapped.measured.step / waiting.measured.step;
  }
};

/// All ranks of `world` call it with the same options, and get the same. In the steps without
/// overlap each bucket's sum is waited for as soon as it was issued.
std::vector<OverlapResult> measure_overlap(collectives::Communicator world,
                                           const OverlapOptions& options);

}  // namespace training
