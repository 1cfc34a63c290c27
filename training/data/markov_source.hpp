// SPDX-License-Identifier: Apache-2.0
// Text that a Markov chain generates, without end. Sequences begin with the stationary
// distribution, so the mean loss of the best model is the chain's entropy rate at every place of a
// sequence.
#pragma once
#include <memory>

#include "draw.hpp"
#include "source.hpp"

namespace training {

/// The chain has 2 to 256 states and is drawn from the seed.
std::unique_ptr<Source> markov_source(std::size_t states, const Draw& draw);

}  // namespace training
