// SPDX-License-Identifier: Apache-2.0
// The first and the last unit of a GPT.
#pragma once
#include "gpt.hpp"

namespace training {

/// y = token embedding + position embedding.
template <class Real>
class GptEmbedding final : public Unit<Real> {
 public:
  explicit GptEmbedding(const GptShape& shape);
  std::size_t width() const override { return channels_; }
  std::size_t saved_size(const Batch&) const override { return 0; }
  std::size_t scratch_size(const Batch&) const override { return 0; }
  double operations(const Batch&) const override { return 0; }
  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& outcome) const override;
  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real factor, const typename Unit<Real>::Ready& ready) const override;

 private:
  std::size_t channels_;
};

/// The loss of softmax(norm(x) W') against the targets.
template <class Real>
class GptHead final : public Unit<Real> {
 public:
  explicit GptHead(const GptShape& shape);
  std::size_t width() const override { return 0; }
  std::size_t saved_size(const Batch& batch) const override {
    return batch.rows() * (2 + channels_ + vocabulary_);
  }
  std::size_t scratch_size(const Batch& batch) const override { return batch.rows() * channels_; }
  double operations(const Batch& batch) const override;
  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& outcome) const override;
  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real factor, const typename Unit<Real>::Ready& ready) const override;

 private:
  std::size_t channels_, vocabulary_;
};

}  // namespace training
