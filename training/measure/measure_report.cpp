// SPDX-License-Identifier: Apache-2.0
// A line, or an object, for each measurement.
#include "measure_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace training {
namespace {

const char* name_of(PipelineKind kind) {
  return kind == PipelineKind::gpipe ? "GPipe" : "1F1B";
}

nlohmann::json json_of(const Cost& cost) {
  return {{"alpha_s", cost.alpha}, {"beta_s_per_byte", cost.beta}};
}

nlohmann::json json_of(const OverlapResult::Kind& kind) {
  return {{"step_s", kind.measured.step},
          {"exposed_s", kind.measured.exposed},
          {"model_step_s", kind.model.step},
          {"model_exposed_s", kind.model.exposed},
          {"deviation", kind.deviation()}};
}

}  // namespace

std::string table_of(std::span<const OverlapResult> results) {
  std::string text =
      "Times in ms; ratio: backward pass in sums of gradients; deviation: of the step from its "
      "model\n"
      "                          each bucket waited for                with overlap\n"
      "ranks ratio buckets     step   model deviation       step   model deviation exposed  "
      "model   saved\n";
  for (const OverlapResult& result : results) {
    const auto& [w, o] = std::pair(result.waiting, result.overlapped);
    text += fmt::format(
        "{:5} {:5.2f} {:7} {:8.2f}{:8.2f} {:+8.1f}% {:10.2f}{:8.2f} {:+8.1f}% {:7.2f}{:7.2f} "
        "{:6.1f}%\n",
        result.ranks, result.ratio, result.buckets, 1e3 * w.measured.step, 1e3 * w.model.step,
        100 * w.deviation(), 1e3 * o.measured.step, 1e3 * o.model.step, 100 * o.deviation(),
        1e3 * o.measured.exposed, 1e3 * o.model.exposed, 100 * result.saved());
  }
  return text;
}

std::string table_of(std::span<const BubbleResult> results) {
  std::string text =
      "Idle: the share of a step, measured and (p - 1) / (m + p - 1)\n"
      "schedule stages micro-batches    idle formula difference in flight\n";
  for (const BubbleResult& result : results) {
    text += fmt::format("{:8} {:6} {:13} {:6.1f}% {:6.1f}% {:+9.1f}% {:9}\n", name_of(result.kind),
                        result.stages, result.leaves, 100 * result.idle, 100 * result.formula,
                        100 * (result.idle - result.formula), result.in_flight);
  }
  return text;
}

nlohmann::json json_of(std::span<const OverlapResult> results) {
  nlohmann::json all = nlohmann::json::array();
  for (const OverlapResult& result : results) {
    all.push_back({{"ranks", result.ranks},
                   {"buckets", result.buckets},
                   {"ratio", result.ratio},
                   {"hidden_sum", json_of(result.hidden)},
                   {"waited_sum", json_of(result.waited)},
                   {"forward_s", result.compute.forward},
                   {"backward_s", result.compute.backward},
                   {"optimizer_s", result.compute.optimizer},
                   {"waiting", json_of(result.waiting)},
                   {"overlapped", json_of(result.overlapped)},
                   {"saved", result.saved()}});
  }
  return all;
}

nlohmann::json json_of(std::span<const BubbleResult> results) {
  nlohmann::json all = nlohmann::json::array();
  for (const BubbleResult& result : results) {
    all.push_back({{"schedule", name_of(result.kind)},
                   {"stages", result.stages},
                   {"micro_batches", result.leaves},
                   {"idle", result.idle},
                   {"formula", result.formula},
                   {"in_flight", result.in_flight}});
  }
  return all;
}

}  // namespace training
