// SPDX-License-Identifier: Apache-2.0
// The first and the last unit of a GPT.
//
// With n partners (Shoeybi et al. 2019, Megatron-LM, arXiv 1909.08053, section 3) rank r has rows
// r V / n to (r + 1) V / n of both tables of the vocabulary. The embedding's forward pass and the
// head's backward pass then need one sum of activations each, the loss a maximum and a sum
// (loss.hpp).
#pragma once
#include "gpt.hpp"
#include "loss.hpp"

namespace training {

/// y = token embedding + position embedding.
template <class Real>
class GptEmbedding final : public Unit<Real> {
 public:
  GptEmbedding(const GptShape& shape, Partners<Real>* partners);
  std::size_t width() const override { return channels_; }
  std::size_t saved_size(const Batch&) const override { return 0; }
  std::size_t scratch_size(const Batch&) const override { return 0; }
  double operations(const Batch&) const override { return 0; }
  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& outcome) const override;
  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real factor, const typename Unit<Real>::Ready& ready) const override;

 private:
  /// Calls visit(row, its token's row in the table) for each row whose token this rank has.
  template <class Visit>
  void for_each_own(const Batch& batch, Visit visit) const;

  std::size_t channels_, first_, rows_;  ///< what this rank has of the table
  Partners<Real>* partners_;
};

/// The loss of softmax(norm(x) W') against the targets.
template <class Real>
class GptHead final : public Unit<Real> {
 public:
  GptHead(const GptShape& shape, Partners<Real>* partners);
  std::size_t width() const override { return 0; }
  std::size_t saved_size(const Batch& batch) const override {
    return batch.rows() * (4 + channels_ + columns_.columns);
  }
  std::size_t scratch_size(const Batch& batch) const override { return batch.rows() * channels_; }
  double operations(const Batch& batch) const override;
  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& outcome) const override;
  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real factor, const typename Unit<Real>::Ready& ready) const override;

 private:
  struct Saved;
  Saved parts(const Batch& batch, Real* saved) const;

  std::size_t channels_;
  LossColumns<Real> columns_;
};

}  // namespace training
