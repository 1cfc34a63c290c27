// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling for gradients in f16 (Micikevicius et al. 2018, arXiv 1710.03740, section
// 3.2): gradients are multiplied by a power of two, so that small ones do not become 0. An overflow
// halves the factor, and the step is left out; after `patience` steps without one it doubles.
#pragma once
#include <algorithm>
#include <cstddef>

namespace training {

class LossScaler {
 public:
  static constexpr float kLeast = 1, kMost = 0x1p24F;
  explicit LossScaler(float factor = 65536, std::size_t patience = 2000)
      : factor_(factor), patience_(patience) {}
  [[nodiscard]] float factor() const { return factor_; }
  /// After each step.
  void update(bool overflow) {
    if (overflow) {
      factor_ = std::max(factor_ / 2, kLeast);
      good_ = 0;
    } else if (++good_ == patience_) {
      factor_ = std::min(factor_ * 2, kMost);
      good_ = 0;
    }
  }
  /// For checkpoints.
  struct State {
    float factor = 0;
    std::size_t good = 0;
  };
  [[nodiscard]] State state() const { return {factor_, good_}; }
  void restore(const State& state) {
    factor_ = state.factor;
    good_ = state.good;
  }

 private:
  float factor_;
  std::size_t patience_, good_ = 0;
};

}  // namespace training
