// SPDX-License-Identifier: Apache-2.0
// A unit that does what another one does: tests change one thing about it.
#pragma once
#include "model/unit.hpp"

namespace training {

class WrappedUnit : public Unit<float> {
 public:
  explicit WrappedUnit(std::unique_ptr<Unit<float>> real) : real_(std::move(real)) {
    name_ = real_->name();
    parameters_ = real_->parameters();
    buffers_ = real_->buffers();
  }
  std::size_t width() const override { return real_->width(); }
  std::size_t saved_size(const Batch& batch) const override { return real_->saved_size(batch); }
  std::size_t scratch_size(const Batch& batch) const override { return real_->scratch_size(batch); }
  double operations(const Batch& batch) const override { return real_->operations(batch); }
  void forward(const Batch& batch, const Memory<float>& memory, const float* input, float* output,
               Outcome& outcome) const override {
    real_->forward(batch, memory, input, output, outcome);
  }
  void backward(const Batch& batch, const Memory<float>& memory, const float* input,
                float* d_output, float* d_input, float factor, const Ready& ready) const override {
    real_->backward(batch, memory, input, d_output, d_input, factor, ready);
  }

 private:
  std::unique_ptr<Unit<float>> real_;
};

/// Each unit as a T.
template <class T, class... Arguments>
Units<float> wrap(Units<float> units, Arguments&... arguments) {
  Units<float> wrapped;
  for (auto& unit : units) wrapped.push_back(std::make_unique<T>(std::move(unit), arguments...));
  return wrapped;
}

}  // namespace training
