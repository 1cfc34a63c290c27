// SPDX-License-Identifier: Apache-2.0
// Pipeline parallelism: each rank has some consecutive units, and micro-batches pass through the
// ranks.
//
// GPipe (Huang et al. 2019, arXiv 1811.06965, section 2.3) runs all m forward passes, then all
// backward passes: m micro-batches are between the two. 1F1B (Narayanan et al. 2019, PipeDream,
// SOSP 2019, section 3.2; with a flush in each step: 2021, arXiv 2104.04473, section 2.2.1) begins
// backward passes as soon as it can: stage s of p holds p - s micro-batches at most. In both, each
// rank is idle for (p - 1) / (m + p - 1) of a step (the bubble), and each boundary carries rows *
// width elements forth and back for each micro-batch. Backward passes run in the order of
// micro-batches, so both give the gradients of one rank, bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "group_traffic.hpp"

namespace training {

enum class PipelineKind : std::uint8_t { gpipe, one_forward_one_backward };

/// A pass of micro-batch `leaf`.
struct Action {
  bool forward = true;
  std::size_t leaf = 0;
};

/// What stage `stage` of `stages` does in a step of `leaves` micro-batches. One stage alone runs
/// the backward pass of each micro-batch behind its forward pass.
std::vector<Action> pipeline_schedule(PipelineKind kind, std::size_t stage, std::size_t stages,
                                      std::size_t leaves);

/// How many micro-batches are at most between their forward and their backward pass.
std::size_t in_flight(std::span<const Action> schedule);

/// The share of a step in which a stage is idle, if all passes of all stages take equally long.
double bubble(std::size_t stages, std::size_t leaves);

/// The first units of each of `stages` stages, and the end: costs as even as consecutive units
/// allow, by the least maximum.
std::vector<std::size_t> divide_units(std::span<const double> costs, std::size_t stages);

/// The rank's links to the stages before and behind it. Tags say micro-batch and direction.
class Boundaries {
 public:
  Boundaries(Traffic& traffic, std::size_t slots) : traffic_(traffic), sent_forward_(slots) {}
  [[nodiscard]] bool first() const { return traffic_.rank() == 0; }
  [[nodiscard]] bool last() const { return traffic_.rank() + 1 == traffic_.ranks(); }
  void receive_input(std::size_t leaf, std::span<float> input);
  /// The output stays until the slot is used again.
  void send_output(std::size_t leaf, std::size_t slot, std::span<const float> output);
  void receive_gradient(std::size_t leaf, std::span<float> gradient);
  void send_gradient(std::size_t leaf, std::span<const float> gradient);
  /// Waits until what was sent from the slot has been received.
  void settle_output(std::size_t slot) { traffic_.wait(sent_forward_[slot]); }
  void settle_gradient() { traffic_.wait(sent_back_); }

 private:
  Pending transfer(coll_operation_t operation, std::size_t peer, std::size_t leaf, bool forward,
                   const float* data, std::size_t count);
  Traffic& traffic_;
  std::vector<Pending> sent_forward_;
  Pending sent_back_;
};

}  // namespace training
