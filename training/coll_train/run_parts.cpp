// SPDX-License-Identifier: Apache-2.0
// Makes the parts of a run from the options' words.
#include "run_parts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "../checkpoint/owned_pieces.hpp"
#include "../data/open_source.hpp"
#include "../model/gpt.hpp"
#include "../model/mlp.hpp"
#include "../model/sleeping_unit.hpp"

namespace training {
namespace {

bool is_gpt(const TrainOptions& options, const Source& source) {
  const bool text = source.shape().pixels == 1;
  if (options.model == (text ? "mlp" : "gpt")) {
    throw Failure(fmt::format("--model {} cannot learn from --data {}; use --model {}",
                              options.model, options.data, text ? "gpt" : "mlp"),
                  Failure::kBadUsage);
  }
  return text;
}

}  // namespace

std::unique_ptr<Source> make_source(const TrainOptions& options) {
  return open_source(options.data, {options.trainer.seed, options.sequences, options.tokens});
}

Units<float> make_units(const TrainOptions& options, const Source& source,
                        Partners<float>* partners) {
  const Source::Shape& shape = source.shape();
  Units<float> units;
  if (is_gpt(options, source)) {
    if (options.batch_norm)
      throw Failure("--batch-norm is for the MLP; the GPT has none", Failure::kBadUsage);
    units = gpt_units<float>(
        {shape.kinds, shape.tokens, options.channels, options.layers, options.heads}, partners);
  } else if (partners != nullptr) {
    throw Failure("--tp splits the GPT only; use --dp for images", Failure::kBadUsage);
  } else {
    if (options.batch_norm && shape.sequences < 2) {
      throw Failure("--batch-norm needs micro-batches of 2 images; --sequences is less",
                    Failure::kBadUsage);
    }
    units = mlp_units<float>({shape.pixels, {options.hidden}, shape.kinds, options.batch_norm});
  }
  if (options.sleep_us == 0) return units;
  return sleeping_units<float>(
      std::move(units),
      std::chrono::nanoseconds(static_cast<std::int64_t>(1000 * options.sleep_us)));
}

std::string describe_model(const TrainOptions& options, const Source& source) {
  std::size_t parameters = 0;
  for (const auto& unit : make_units(options, source, nullptr)) parameters += unit->size();
  if (is_gpt(options, source)) {
    return fmt::format("GPT, {} blocks of {} channels and {} heads, {} parameters", options.layers,
                       options.channels, options.heads, parameters);
  }
  return fmt::format("MLP, {} hidden{}, {} parameters", options.hidden,
                     options.batch_norm ? " with batch normalisation" : "", parameters);
}

std::vector<WholeParameter> whole_parameters(const TrainOptions& options, const Source& source) {
  std::vector<WholeParameter> parameters;
  for (const auto& unit : make_units(options, source, nullptr)) {
    for (const ParameterInfo& info : unit->parameters()) parameters.push_back(whole(info));
    for (const ParameterInfo& info : unit->buffers()) parameters.push_back(whole(info));
  }
  return parameters;
}

std::string settings_text(const TrainOptions& options, const Source& source) {
  return nlohmann::json{{"the model", describe_model(options, source)},
                        {"--data", options.data},
                        {"--sequences", options.sequences},
                        {"--tokens", options.tokens},
                        {"--micro-batches", options.trainer.leaves},
                        {"--seed", options.trainer.seed},
                        {"--rate", options.trainer.rate.most},
                        {"--last-rate", options.trainer.rate.least},
                        {"--warm-up", options.trainer.rate.warm_up},
                        {"--decay", options.trainer.decay},
                        {"--clip", options.trainer.clip},
                        {"--delay-updates", options.trainer.delay},
                        {"--drop", options.trainer.drop},
                        {"--hook", options.hook},
                        {"--weights", name_of(options.trainer.weights)},
                        {"--gradients", name_of(options.trainer.gradients)}}
      .dump();
}

double step_flops(const TrainOptions& options, const Source& source) {
  const Batch batch{source.shape().sequences, source.shape().tokens, {}, {}};
  double operations = 0;
  for (const auto& unit : make_units(options, source, nullptr))
    operations += unit->operations(batch);
  return 3 * operations * static_cast<double>(options.trainer.leaves);
}

}  // namespace training
