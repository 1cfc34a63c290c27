// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step: it rises linearly, then falls along half a cosine (Loshchilov,
// Hutter 2017, arXiv 1608.03983, section 3).
#pragma once
#include <cmath>
#include <cstddef>
#include <numbers>

namespace training {

struct LearningRate {
  float most = 3e-3F;        ///< after the warm-up
  float least = 1e-4F;       ///< at the last step, and after it
  std::size_t warm_up = 50;  ///< steps
  std::size_t steps = 0;     ///< of the whole run; 0: it stays at `most`

  /// Of step 0, 1, ….
  [[nodiscard]] float at(std::size_t step) const {
    if (step < warm_up) return most * static_cast<float>(step + 1) / static_cast<float>(warm_up);
    if (steps <= warm_up) return most;
    if (step >= steps) return least;
    const double part = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
    return least + (most - least) * static_cast<float>((1 + std::cos(std::numbers::pi * part)) / 2);
  }
};

}  // namespace training
