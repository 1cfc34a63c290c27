// SPDX-License-Identifier: Apache-2.0
// A unit whose gradient is too large, or not finite, in one pass.
#pragma once
#include <map>

#include "wrapped_unit.hpp"

namespace training {

/// Its gradient overflows in one of its backward passes.
class OverflowingUnit final : public WrappedUnit {
 public:
  struct When {
    int pass = -1;  ///< of the unit; -1: never
    int passes = 0;
    float value = 1e6F;  ///< of the gradient's first element; f16 ends at 65,504
  };
  OverflowingUnit(std::unique_ptr<Unit<float>> real, std::map<std::string, When>& when)
      : WrappedUnit(std::move(real)), when_(when) {}
  void backward(const Batch& batch, const Memory<float>& memory, const float* input,
                float* d_output, float* d_input, float factor, const Ready& ready) const override {
    When& when = when_[name()];
    const bool overflows = when.passes++ == when.pass;
    WrappedUnit::backward(batch, memory, input, d_output, d_input, factor, [&](std::size_t i) {
      if (overflows && i == 0) memory.gradients[0][0] = when.value;
      ready(i);
    });
  }

 private:
  std::map<std::string, When>& when_;
};

}  // namespace training
