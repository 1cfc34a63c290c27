// SPDX-License-Identifier: Apache-2.0
// AdamW (Kingma, Ba 2015, arXiv 1412.6980, algorithm 1; Loshchilov, Hutter 2019, arXiv 1711.05101,
// algorithm 2), in one pass over memory:
//
//   g = gradient * scale
//   m = b1 m + (1 - b1) g
//   v = b2 v + (1 - b2) g^2
//   w = w - (rate * decay * w + step_size * m / (sqrt(v) / root_of_correction + epsilon))
//
// with step_size = rate / (1 - b1^t) and root_of_correction = sqrt(1 - b2^t). It moves 28 bytes for
// each f32 parameter. Each element depends on itself alone, so shards give the bits of the whole.
//
// The compiler makes vectors of the loop: divisions and roots are correctly rounded in all of them.
// Stores that bypass the cache were measured and took 1.4 to 2 times as long, since each line
// written was just read; prefetching did not help.
#pragma once
#include "kernels.hpp"
#include "lanes.hpp"

namespace training::TRAINING_ISA {

inline void adam(const AdamStep& given, std::size_t n, const float* __restrict gradient,
                 float* __restrict w, float* __restrict m, float* __restrict v) {
  const AdamStep step = given;  // a copy: stores cannot change it
  const float decay = step.rate * step.decay;
  const float inverse = 1 / step.root_of_correction;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * step.scale;
    const float first = step.beta1 * m[i] + (1 - step.beta1) * g;
    const float second = step.beta2 * v[i] + (1 - step.beta2) * (g * g);
    const float denominator = std::sqrt(second) * inverse + step.epsilon;
    // Not (1 - decay) w: its error would be the same in each step, and add up.
    w[i] -= decay * w[i] + step.step_size * (first / denominator);
    m[i] = first;
    v[i] = second;
  }
}

}  // namespace training::TRAINING_ISA
