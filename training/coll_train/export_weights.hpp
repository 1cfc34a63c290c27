// SPDX-License-Identifier: Apache-2.0
// Writes the weights as one safetensors file, whatever rank has which part of them.
#pragma once
#include <string>
#include <vector>

#include "../checkpoint/owned_pieces.hpp"
#include "../parallel/mesh.hpp"
#include "../trainer/trainer.hpp"

namespace training {

/// The pieces of a state that this rank hands out: all ranks together have everything once. Buffers
/// are among the weights.
std::vector<OwnedPiece> handed_out(const Trainer& trainer, const Mesh& mesh, State state);

/// All ranks call it; rank 0 writes, and holds one parameter at a time. Weights are f32, also where
/// training rounds them to 16 bits.
void export_weights(const Trainer& trainer, Mesh& mesh, const std::vector<WholeParameter>& whole,
                    const std::string& path);

}  // namespace training
