// SPDX-License-Identifier: Apache-2.0
// Puts a GPT together.
#include "gpt.hpp"

#include <fmt/format.h>

#include "../memory/failure.hpp"
#include "gpt_block.hpp"
#include "gpt_ends.hpp"

namespace training {

std::size_t GptShape::parameters() const {
  return 2 * vocabulary * channels + positions * channels +
         blocks * (12 * channels * channels + 13 * channels) + 2 * channels;
}

namespace {
void refuse(const char* what, std::size_t size, const char* into, std::size_t parts) {
  throw Failure(fmt::format("A GPT with {} {} cannot be split into {} {}: choose a multiple.", size,
                            what, parts, into),
                Failure::kBadUsage);
}

/// Heads and channels are divided evenly; of the vocabulary each partner has at least one token.
void check(const GptShape& shape, std::size_t partners) {
  if (shape.heads == 0 || shape.channels % shape.heads != 0)
    refuse("channels", shape.channels, "heads", shape.heads);
  if (shape.heads % partners != 0) refuse("heads", shape.heads, "tensor-parallel ranks", partners);
  if (4 * shape.channels % partners != 0)
    refuse("hidden channels", 4 * shape.channels, "tensor-parallel ranks", partners);
  if (shape.vocabulary < partners)
    refuse("tokens in its vocabulary", shape.vocabulary, "tensor-parallel ranks", partners);
}
}  // namespace

template <class Real>
Units<Real> gpt_units(const GptShape& shape, Partners<Real>* partners) {
  check(shape, partners != nullptr ? partners->ranks() : 1);
  Units<Real> units;
  units.push_back(std::make_unique<GptEmbedding<Real>>(shape, partners));
  for (std::size_t i = 0; i < shape.blocks; ++i)
    units.push_back(std::make_unique<GptBlock<Real>>(shape, i, partners));
  units.push_back(std::make_unique<GptHead<Real>>(shape, partners));
  return units;
}

template Units<float> gpt_units(const GptShape&, Partners<float>*);
template Units<double> gpt_units(const GptShape&, Partners<double>*);

}  // namespace training
