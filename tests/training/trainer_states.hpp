// SPDX-License-Identifier: Apache-2.0
// What a trainer's rank hands out for checkpoints, for tests that compare runs.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

/// By state and parameter.
using States = std::map<std::string, std::vector<float>>;

/// Adds what this rank hands out.
inline void add_states(const Trainer& trainer, States& states) {
  for_each_state(trainer, [&](const StatePart& part) {
    auto& values = states[std::to_string(static_cast<int>(part.state)) + part.parameter];
    values.resize(std::max(values.size(), part.first + part.values.size()));
    std::ranges::copy(part.values, values.begin() + static_cast<std::ptrdiff_t>(part.first));
  });
}

inline void expect_same_states(const States& one, const States& other) {
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [name, values] : one) EXPECT_EQ(values, other.at(name)) << name;
}

}  // namespace training
