// SPDX-License-Identifier: Apache-2.0
// Puts a GPT together.
#include "gpt.hpp"

#include "gpt_block.hpp"
#include "gpt_ends.hpp"

namespace training {

std::size_t GptShape::parameters() const {
  return 2 * vocabulary * channels + positions * channels +
         blocks * (12 * channels * channels + 13 * channels) + 2 * channels;
}

template <class Real>
Units<Real> gpt_units(const GptShape& shape, Partners<Real>* partners) {
  Units<Real> units;
  units.push_back(std::make_unique<GptEmbedding<Real>>(shape));
  for (std::size_t i = 0; i < shape.blocks; ++i)
    units.push_back(std::make_unique<GptBlock<Real>>(shape, i, partners));
  units.push_back(std::make_unique<GptHead<Real>>(shape));
  return units;
}

template Units<float> gpt_units(const GptShape&, Partners<float>*);
template Units<double> gpt_units(const GptShape&, Partners<double>*);

}  // namespace training
