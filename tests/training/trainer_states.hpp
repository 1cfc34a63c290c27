// SPDX-License-Identifier: Apache-2.0
// What a trainer's rank hands out for checkpoints, for tests that compare runs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "checkpoint/owned_pieces.hpp"
#include "trainer/trainer.hpp"

namespace training {

struct StatePart {
  State state;
  std::string parameter;
  std::size_t first;  ///< in the whole parameter
  std::span<const float> values;
};

/// Calls visit(part) for all weights and moments that this rank hands out.
template <class Visit>
void for_each_state(const Trainer& trainer, Visit visit) {
  const auto parameters = parameters_of(trainer.units());
  std::vector<float> values;
  for (const State state : {State::weights, State::first_moment, State::second_moment}) {
    for (const OwnedPiece& owned :
         owned_pieces(trainer.layout(), trainer.counted(), parameters, state)) {
      values.resize(owned.piece.count);
      trainer.read(state, owned.bucket, owned.first, values);
      visit(StatePart{state, owned.piece.parameter, owned.piece.first, values});
    }
  }
}

}  // namespace training
