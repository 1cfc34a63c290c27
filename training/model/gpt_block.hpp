// SPDX-License-Identifier: Apache-2.0
// One block of a GPT:
//
//   m = x + proj(attention(qkv(norm1(x)))),  y = m + down(gelu(up(norm2(m))))
#pragma once
#include "gpt.hpp"

namespace training {

/// With n partners (Shoeybi et al. 2019, Megatron-LM, arXiv 1909.08053, section 3) each rank has
/// heads / n heads and 4 C / n hidden channels: `qkv` and `up` are split by their rows, `proj` and
/// `down` by their columns. Each pass then needs two sums of the activations over the partners.
template <class Real>
class GptBlock final : public Unit<Real> {
 public:
  GptBlock(const GptShape& shape, std::size_t index, Partners<Real>* partners);
  std::size_t width() const override { return channels_; }
  std::size_t saved_size(const Batch& batch) const override;
  std::size_t scratch_size(const Batch& batch) const override;
  double operations(const Batch& batch) const override;
  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& outcome) const override;
  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real factor, const typename Unit<Real>::Ready& ready) const override;

 private:
  struct Saved;
  Saved parts(const Batch& batch, Real* saved) const;
  void sum(std::span<Real> values) const {
    if (partners_ != nullptr) partners_->sum(values);
  }

  std::size_t channels_, heads_, width_, hidden_;  ///< heads and hidden channels of this rank
  Partners<Real>* partners_;
};

}  // namespace training
