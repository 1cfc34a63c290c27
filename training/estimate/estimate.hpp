// SPDX-License-Identifier: Apache-2.0
// What a rank will keep and send, before anything runs.
//
// With P parameters, n data-parallel ranks, b bytes of a weight and of a gradient, and K bytes of
// optimizer states for each parameter (12 with weights of 16 bits, else 8), a rank keeps
//
//   stage 0: (b + b + K) P        stage 1: (b + b + K / n) P
//   stage 2: (b + (b + K) / n) P  stage 3: (b + b + K) P / n
//
// (Rajbhandari et al. 2020, arXiv 1910.02054, section 5 and table 1) and the buffers that the
// stage's file names (zero2.hpp, zero3.hpp). In a step of m micro-batches for each rank it sends,
// in units of P (n - 1) / n elements: 2 in stages 0 and 1, m + 1 in stage 2, 3 m in stage 3 (4 m
// where activations of several units at a time are computed anew). Over the link to host memory go
// m times the activations that lie there, each way.
#pragma once
#include <array>
#include <string>

#include "../trainer/trainer.hpp"

namespace training {

struct Estimate {
  std::array<std::size_t, kUses> bytes{};  ///< by Use, on one rank
  std::size_t sent_bytes = 0;              ///< by one rank to its data-parallel group, in a step
  std::size_t host_activations = 0;        ///< bytes in host memory
  std::size_t moved_activations = 0;       ///< bytes over the link in a step, each way
  [[nodiscard]] std::size_t of(Use use) const { return bytes[static_cast<std::size_t>(use)]; }
  [[nodiscard]] std::size_t all() const;
};

/// `units`: of one pipeline stage. With `offload` the optimizer's states are not on the device.
Estimate estimate(const TrainerOptions& options, const Units<float>& units, const Batch& shape,
                  const StageOptions& stage, std::size_t ranks, bool offload = false);

/// What DeepSpeed says of its stages 2 and 3 (its functions estimate_zero2_model_states_mem_needs
/// and estimate_zero3_model_states_mem_needs), which also keep gradients in f32: 4 P + 16 P / n and
/// 18 P / n + 4 L bytes, with L the parameters of the largest layer. 0 for the other stages.
std::size_t deepspeed_bytes(int stage, std::size_t parameters, std::size_t largest,
                            std::size_t ranks);

/// A table of all stages for a person; the chosen one is marked.
std::string estimate_table(const TrainerOptions& options, const Units<float>& units,
                           const Batch& shape, const StageOptions& stage, std::size_t ranks,
                           bool offload = false);

}  // namespace training
