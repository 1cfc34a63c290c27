// SPDX-License-Identifier: Apache-2.0
// What the options name: the data, the model, the optimizer.
#pragma once
#include <memory>
#include <string>

#include "../checkpoint/piece.hpp"
#include "../data/source.hpp"
#include "../model/unit.hpp"
#include "train_options.hpp"

namespace training {

std::unique_ptr<Source> make_source(const TrainOptions& options);

/// The model for this data; `partners` share its matrices, null: none.
Units<float> make_units(const TrainOptions& options, const Source& source,
                        Partners<float>* partners);

/// "GPT, 4 blocks of 128 channels, 817664 parameters"
std::string describe_model(const TrainOptions& options, const Source& source);

/// The parameters and buffers of the whole model.
std::vector<WholeParameter> whole_parameters(const TrainOptions& options, const Source& source);

/// What a run must share with the one whose checkpoint it goes on from, as JSON.
std::string settings_text(const TrainOptions& options, const Source& source);

/// Floating-point operations of a step, of the whole model: the backward pass has twice as many as
/// the forward pass.
double step_flops(const TrainOptions& options, const Source& source);

}  // namespace training
