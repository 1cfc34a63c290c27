// SPDX-License-Identifier: Apache-2.0
// A GPT (Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3):
// token and position embedding, blocks of attention and a network with one hidden layer, and a head
// that predicts the next token.
//
// With V tokens in the vocabulary, T positions, C channels and L blocks it has
// 2 V C + T C + L (12 C^2 + 13 C) + 2 C parameters; the head's matrix is not the embedding's.
#pragma once
#include "unit.hpp"

namespace training {

struct GptShape {
  std::size_t vocabulary = 63, positions = 64, channels = 128, blocks = 4, heads = 4;
  [[nodiscard]] std::size_t parameters() const;
};

/// `partners` share the matrices; null: this rank has the whole. Throws Failure if the shape cannot
/// be split among them.
template <class Real>
Units<Real> gpt_units(const GptShape& shape, Partners<Real>* partners = nullptr);

}  // namespace training
