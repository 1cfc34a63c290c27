// SPDX-License-Identifier: Apache-2.0
// AdamW (Kingma, Ba 2015, arXiv 1412.6980, algorithm 1; Loshchilov, Hutter 2019, arXiv 1711.05101,
// algorithm 2), in one pass over memory:
//
//   g = gradient * scale
//   m = b1 m + (1 - b1) g
//   v = b2 v + (1 - b2) g^2
//   w = w - rate * decay * w - step_size * m / (sqrt(v) / root_of_correction + epsilon)
//
// with step_size = rate / (1 - b1^t) and root_of_correction = sqrt(1 - b2^t). It moves 28 bytes for
// each f32 parameter. Each element depends on itself alone, so shards give the bits of the whole.
#pragma once
#include "kernels.hpp"
#include "lanes.hpp"

namespace training::TRAINING_ISA {

inline void adam(const AdamStep& step, std::size_t n, const float* gradient, float* w, float* m,
                 float* v) {
  const float shrink = 1 - step.rate * step.decay;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * step.scale;
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * (g * g);
    const float denominator = std::sqrt(v[i]) / step.root_of_correction + step.epsilon;
    w[i] = shrink * w[i] - step.step_size * (m[i] / denominator);
  }
}

}  // namespace training::TRAINING_ISA
