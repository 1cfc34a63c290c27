// SPDX-License-Identifier: Apache-2.0
// The orders of passes, and what crosses the boundaries of stages.
#include "pipeline.hpp"

#include <algorithm>
#include <limits>

namespace training {

std::vector<Action> pipeline_schedule(PipelineKind kind, std::size_t stage, std::size_t stages,
                                      std::size_t leaves) {
  // How many forward passes are ahead of the first backward pass.
  const std::size_t ahead =
      kind == PipelineKind::gpipe && stages > 1 ? leaves : std::min(leaves, stages - stage);
  std::vector<Action> actions;
  for (std::size_t i = 0; i < ahead; ++i) actions.push_back({true, i});
  for (std::size_t i = 0; i < leaves; ++i) {
    actions.push_back({false, i});
    if (i + ahead < leaves) actions.push_back({true, i + ahead});
  }
  return actions;
}

std::size_t in_flight(std::span<const Action> schedule) {
  std::size_t now = 0, most = 0;
  for (const Action& action : schedule) {
    if (action.forward)
      most = std::max(most, ++now);
    else
      --now;
  }
  return most;
}

double bubble(std::size_t stages, std::size_t leaves) {
  return static_cast<double>(stages - 1) / static_cast<double>(leaves + stages - 1);
}

std::vector<std::size_t> divide_units(std::span<const double> costs, std::size_t stages) {
  // least[s][i]: the least maximum of s stages for the first i units; every stage has a unit.
  const std::size_t units = costs.size();
  constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(units + 1, kImpossible));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(units + 1));
  least[0][0] = 0;
  for (std::size_t stage = 1; stage <= stages; ++stage) {
    for (std::size_t end = stage; end <= units; ++end) {
      double cost = 0;
      for (std::size_t begin = end; begin-- > stage - 1;) {
        cost += costs[begin];
        const double most = std::max(cost, least[stage - 1][begin]);
        if (most < least[stage][end]) {
          least[stage][end] = most;
          from[stage][end] = begin;
        }
      }
    }
  }
  std::vector<std::size_t> begins(stages + 1, units);
  for (std::size_t stage = stages; stage > 0; --stage)
    begins[stage - 1] = from[stage][begins[stage]];
  return begins;
}

Pending Boundaries::transfer(coll_operation_t operation, std::size_t peer, std::size_t leaf,
                             bool forward, const float* data, std::size_t count) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.send = data;
  call.recv = const_cast<float*>(data);
  call.count = count;
  call.type = COLL_FLOAT32;
  call.root = static_cast<int>(peer);
  call.tagged = 1;
  call.tag = static_cast<int>(2 * leaf + (forward ? 0 : 1));
  const char* name = operation == COLL_SEND ? (forward ? "send output" : "send gradient")
                                            : (forward ? "receive input" : "receive gradient");
  return traffic_.start(call, name, count * sizeof(float));
}

void Boundaries::receive_input(std::size_t leaf, std::span<float> input) {
  Pending pending =
      transfer(COLL_RECV, traffic_.rank() - 1, leaf, true, input.data(), input.size());
  traffic_.wait(pending);
}

void Boundaries::send_output(std::size_t leaf, std::size_t slot, std::span<const float> output) {
  sent_forward_[slot] =
      transfer(COLL_SEND, traffic_.rank() + 1, leaf, true, output.data(), output.size());
}

void Boundaries::receive_gradient(std::size_t leaf, std::span<float> gradient) {
  Pending pending =
      transfer(COLL_RECV, traffic_.rank() + 1, leaf, false, gradient.data(), gradient.size());
  traffic_.wait(pending);
}

void Boundaries::send_gradient(std::size_t leaf, std::span<const float> gradient) {
  sent_back_ =
      transfer(COLL_SEND, traffic_.rank() - 1, leaf, false, gradient.data(), gradient.size());
}

}  // namespace training
