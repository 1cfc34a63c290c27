// SPDX-License-Identifier: Apache-2.0
// The formulas, on the layout that the trainer would use.
#include "estimate.hpp"

#include <fmt/format.h>

#include <numeric>

#include "../layout/leaf_tree.hpp"

namespace training {
namespace {

/// Parameters of the largest unit.
std::size_t largest_unit(const Units<float>& units) {
  std::size_t largest = 0;
  for (const auto& unit : units) largest = std::max(largest, unit->size());
  return largest;
}

std::string in_units(std::size_t bytes) {
  if (bytes < 100'000) return fmt::format("{} B", bytes);
  if (bytes < 100'000'000) return fmt::format("{:.3f} MB", static_cast<double>(bytes) * 1e-6);
  return fmt::format("{:.3f} GB", static_cast<double>(bytes) * 1e-9);
}

}  // namespace

std::size_t Estimate::all() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

Estimate estimate(const TrainerOptions& options, const Units<float>& units, const Batch& shape,
                  const StageOptions& stage, std::size_t ranks, bool offload) {
  const auto sizes = sizes_of(units);
  const FlatLayout layout = layout_for(options, sizes, FlatLayout::backward_order(sizes), ranks);
  const std::size_t all = layout.size(), part = all / ranks;
  const auto zero = static_cast<std::size_t>(options.zero);
  const std::size_t weight = bytes_of(options.weights), gradient = bytes_of(options.gradients);
  const std::size_t states = options.weights == Format::f32 ? 8 : 12;
  const std::size_t leaves = (options.leaves + ranks - 1) / ranks;
  const std::size_t levels = std::max<std::size_t>(levels_of(leaves), 1);
  Estimate result;
  const auto of = [&](Use use) -> std::size_t& {
    return result.bytes[static_cast<std::size_t>(use)];
  };
  of(Use::parameters) = weight * (zero == 3 ? part : all);
  for (const auto& unit : units)
    for (const ParameterInfo& buffer : unit->buffers())
      of(Use::parameters) += sizeof(float) * buffer.size();
  of(Use::gradients) = gradient * levels * (zero >= 2 ? part : all);
  if (!offload) of(Use::optimizer) = states * (zero >= 1 ? part : all);
  if (zero >= 2) of(Use::buckets) += 2 * gradient * layout.largest();
  if (zero == 3) of(Use::buckets) += (1 + options.prefetch) * weight * layout.largest();
  for (const Format format : {options.weights, options.gradients})
    if (format != Format::f32) of(Use::staging) += sizeof(float) * largest_unit(units);
  of(Use::activations) = sizeof(float) * activation_elements(units, shape, stage);
  const auto outputs = host_outputs(units, shape, stage);
  const std::size_t output_bytes =
      sizeof(float) * std::accumulate(outputs.begin(), outputs.end(), std::size_t{0});
  result.host_activations = stage.slots * output_bytes;
  result.moved_activations = leaves * output_bytes;

  const std::size_t share = part * (ranks - 1);
  const std::size_t gathers = options.checkpoint > 1 ? 3 : 2;
  result.sent_bytes = zero == 0   ? 2 * share * gradient
                      : zero == 1 ? share * (gradient + weight)
                      : zero == 2 ? share * (leaves * gradient + weight)
                                  : share * leaves * (gradient + gathers * weight);
  return result;
}

std::size_t deepspeed_bytes(int stage, std::size_t parameters, std::size_t largest,
                            std::size_t ranks) {
  if (stage == 2) return 4 * parameters + 16 * parameters / ranks;
  if (stage == 3) return 18 * parameters / ranks + 4 * largest;
  return 0;
}

std::string estimate_table(const TrainerOptions& options, const Units<float>& units,
                           const Batch& shape, const StageOptions& stage, std::size_t ranks,
                           bool offload) {
  std::size_t parameters = 0;
  for (const auto& unit : units) parameters += unit->size();
  std::string text = fmt::format(
      "{} parameters, {} data-parallel ranks, weights {}, gradients {}, {} micro-batches of {} "
      "rows\n"
      "on one rank:\n"
      "{:>7}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}{:>15}{:>13}\n",
      parameters, ranks, name_of(options.weights), name_of(options.gradients), options.leaves,
      shape.rows(), "stage", "weights", "gradients", "optimizer", "buckets", "staging",
      "activations", "sum", "sent each step", "DeepSpeed");
  for (int zero = 0; zero <= 3; ++zero) {
    TrainerOptions with = options;
    with.zero = zero;
    const Estimate e = estimate(with, units, shape, stage, ranks, offload);
    const std::size_t deepspeed =
        options.weights == Format::f32
            ? 0
            : deepspeed_bytes(zero, parameters, largest_unit(units), ranks);
    text += fmt::format("{:>7}", fmt::format("{}{}", zero == options.zero ? "*" : "", zero));
    for (const Use use : {Use::parameters, Use::gradients, Use::optimizer, Use::buckets,
                          Use::staging, Use::activations})
      text += fmt::format("{:>13}", in_units(e.of(use)));
    text += fmt::format("{:>13}{:>15}{:>13}\n", in_units(e.all()), in_units(e.sent_bytes),
                        deepspeed == 0 ? "-" : in_units(deepspeed));
  }
  if (stage.host != nullptr) {
    const Estimate e = estimate(options, units, shape, stage, ranks, offload);
    text += fmt::format(
        "activations in host memory: {} on one rank; each step moves {} there, and as many back\n",
        in_units(e.host_activations), in_units(e.moved_activations));
  }
  return text +
         "DeepSpeed: what its estimators say of weights, gradients and optimizer at 16 bits.\n";
}

}  // namespace training
