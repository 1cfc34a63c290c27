// SPDX-License-Identifier: Apache-2.0
// Brings the weights to rank 0, parameter by parameter.
#include "weights_export.hpp"

#include <cstring>

#include "../safetensors/safetensors_writer.hpp"
#include "run_checkpoints.hpp"

namespace training {

void export_weights(const std::string& path, const std::vector<WholeParameter>& whole,
                    const Trainer& trainer, Mesh& mesh) {
  std::optional<SafetensorsWriter> writer;
  if (mesh.rank() == 0) writer.emplace(path, whole, Format::f32);
  const auto pieces = pieces_to_hand_out(trainer, mesh, State::weights);
  for (const WholeParameter& parameter : whole) {
    std::vector<float> values(parameter.size());
    for (const OwnedPiece& piece : pieces) {
      if (piece.piece.parameter != parameter.name) continue;
      trainer.read(State::weights, piece.bucket, piece.first,
                   std::span(values).subspan(piece.piece.first, piece.piece.count));
    }
    // One rank has an element, the others 0: a sum of the bits is exact, -0 and NaN included.
    std::vector<std::int32_t> bits(values.size()), sums(values.size());
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
    value_of(mesh.world.reduce<std::int32_t>(bits, sums, 0));
    if (!writer) continue;
    std::memcpy(values.data(), sums.data(), values.size() * sizeof(float));
    writer->write(values);
  }
  if (writer) writer->finish();
  value_of(mesh.world.barrier());
}

}  // namespace training
