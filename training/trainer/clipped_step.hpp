// SPDX-License-Identifier: Apache-2.0
// The numbers of one step of AdamW, with the gradient clipped to a norm (Pascanu et al. 2013, arXiv
// 1211.5063, algorithm 1) as PyTorch's clip_grad_norm_ does.
#pragma once
#include <algorithm>
#include <cmath>

#include "../math/kernels.hpp"
#include "trainer.hpp"

namespace training {

/// Of step 0, 1, …. `mean`: what makes the sum of gradients their mean; `norm`: of that mean.
inline AdamStep clipped_step(const TrainerOptions& options, std::size_t step, double mean,
                             double norm) {
  const double most = static_cast<double>(options.clip);
  const double clip = most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0;
  const auto t = static_cast<double>(step + 1);
  const float rate = options.rate.at(step);
  return {.scale = static_cast<float>(mean * clip),
          .rate = rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .decay = options.decay,
          .step_size = static_cast<float>(static_cast<double>(rate) /
                                          (1 - std::pow(static_cast<double>(options.beta1), t))),
          .root_of_correction =
              static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(options.beta2), t)))};
}

}  // namespace training
