// SPDX-License-Identifier: Apache-2.0
// Writes the weights of all ranks as one safetensors file.
#pragma once
#include <string>

#include "../checkpoint/piece.hpp"
#include "../trainer/trainer.hpp"

namespace training {

/// All ranks call it; rank 0 writes. `whole`: the parameters of the whole model.
void export_weights(const std::string& path, const std::vector<WholeParameter>& whole,
                    const Trainer& trainer, Mesh& mesh);

}  // namespace training
