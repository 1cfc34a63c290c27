// SPDX-License-Identifier: Apache-2.0
// Adds up the ranks' pieces of each parameter, as bits.
#include "export_weights.hpp"

#include <bit>
#include <optional>

#include "../safetensors/safetensors_writer.hpp"

namespace training {

std::vector<OwnedPiece> handed_out(const Trainer& trainer, const Mesh& mesh, State state) {
  auto pieces =
      owned_pieces(trainer.layout(), trainer.counted(), parameters_of(trainer.units()), state);
  // What tensor parallelism does not split, its ranks have alike.
  if (mesh.tensor_rank() != 0) {
    std::erase_if(
        pieces, [&](const OwnedPiece& piece) { return !trainer.is_split(piece.piece.parameter); });
  }
  if (state == State::weights && mesh.data_rank() == 0 && mesh.tensor_rank() == 0) {
    std::size_t first = 0;
    for (const auto& unit : trainer.units()) {
      for (const ParameterInfo& buffer : unit->buffers()) {
        pieces.push_back(
            {trainer.layout().buckets().size(), first, {state, buffer.name, 0, buffer.size()}});
        first += buffer.size();
      }
    }
  }
  return pieces;
}

void export_weights(const Trainer& trainer, Mesh& mesh, const std::vector<WholeParameter>& whole,
                    const std::string& path) {
  const auto pieces = handed_out(trainer, mesh, State::weights);
  std::optional<SafetensorsWriter> writer;
  if (mesh.rank() == 0) writer.emplace(path, whole, Format::f32);
  std::vector<float> values;
  for (const WholeParameter& parameter : whole) {
    values.assign(parameter.size(), 0);
    for (const OwnedPiece& owned : pieces) {
      const Piece& piece = owned.piece;
      if (piece.parameter == parameter.name) {
        trainer.read(State::weights, owned.bucket, owned.first,
                     std::span(values).subspan(piece.first, piece.count));
      }
    }
    // Each element is 0 on all ranks but one: as integers, sums leave it as it is, also -0.
    std::vector<std::int32_t> bits(values.size());
    std::ranges::transform(values, bits.begin(),
                           [](float value) { return std::bit_cast<std::int32_t>(value); });
    value_of(mesh.world.all_reduce<std::int32_t>(bits));
    if (!writer) continue;
    std::ranges::transform(bits, values.begin(),
                           [](std::int32_t word) { return std::bit_cast<float>(word); });
    writer->write(values);
  }
  if (writer) writer->finish();
}

}  // namespace training
