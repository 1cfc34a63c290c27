// SPDX-License-Identifier: Apache-2.0
// Embedding and head of a GPT.
#include "gpt_ends.hpp"

#include <algorithm>

#include "linear.hpp"

namespace training {
namespace {

/// The rows of a table of the vocabulary that this rank has.
template <class Real>
LossColumns<Real> own_tokens(const GptShape& shape, Partners<Real>* partners) {
  if (partners == nullptr) return {.columns = shape.vocabulary};
  const std::size_t rank = partners->rank(), ranks = partners->ranks();
  const std::size_t first = rank * shape.vocabulary / ranks;
  return {(rank + 1) * shape.vocabulary / ranks - first, first, partners};
}

template <class Real>
ParameterInfo table_of(const char* name, const GptShape& shape, const LossColumns<Real>& own,
                       bool decays) {
  ParameterInfo info{name, own.columns, shape.channels, 0, 0.02F, decays};
  if (own.partners != nullptr)
    info.slice = {.rows = shape.vocabulary, .columns = shape.channels, .first_row = own.first};
  return info;
}

}  // namespace

template <class Real>
GptEmbedding<Real>::GptEmbedding(const GptShape& shape, Partners<Real>* partners)
    : channels_(shape.channels), partners_(partners) {
  const LossColumns<Real> own = own_tokens(shape, partners);
  first_ = own.first;
  rows_ = own.columns;
  this->name_ = "embedding";
  this->parameters_ = {
      table_of("embedding.tokens", shape, own, false),
      {"embedding.positions", shape.positions, shape.channels, 0, 0.02F, false},
  };
}

template <class Real>
template <class Visit>
void GptEmbedding<Real>::for_each_own(const Batch& batch, Visit visit) const {
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const std::size_t token = static_cast<std::size_t>(batch.inputs[row]) - first_;
    if (token < rows_) visit(row * channels_, token * channels_);
  }
}

template <class Real>
void GptEmbedding<Real>::forward(const Batch& batch, const Memory<Real>& memory,
                                 const Real* /*input*/, Real* output, Outcome& /*outcome*/) const {
  const Kernels<Real>& k = kernels<Real>();
  const std::size_t n = batch.rows() * channels_, sequence = batch.tokens * channels_;
  if (partners_ != nullptr) std::fill_n(output, n, Real{});
  for_each_own(batch, [&](std::size_t at, std::size_t token) {
    std::copy_n(memory.weights[0] + token, channels_, output + at);
  });
  if (partners_ != nullptr) partners_->sum({output, n});
  for (std::size_t at = 0; at < n; at += sequence) k.add(sequence, memory.weights[1], output + at);
}

template <class Real>
void GptEmbedding<Real>::backward(const Batch& batch, const Memory<Real>& memory,
                                  const Real* /*input*/, Real* d_output, Real* /*d_input*/,
                                  Real /*factor*/, const typename Unit<Real>::Ready& ready) const {
  const Kernels<Real>& k = kernels<Real>();
  const std::size_t n = batch.rows() * channels_, sequence = batch.tokens * channels_;
  for (std::size_t i = 0; i < 2; ++i)
    std::fill_n(memory.gradients[i], this->parameters_[i].size(), Real{});
  for (std::size_t at = 0; at < n; at += sequence)
    k.add(sequence, d_output + at, memory.gradients[1]);
  ready(1);
  for_each_own(batch, [&](std::size_t at, std::size_t token) {
    k.add(channels_, d_output + at, memory.gradients[0] + token);
  });
  ready(0);
}

template <class Real>
GptHead<Real>::GptHead(const GptShape& shape, Partners<Real>* partners)
    : channels_(shape.channels), columns_(own_tokens(shape, partners)) {
  this->name_ = "head";
  this->parameters_ = {
      {"head.norm.gain", 1, channels_, 1, 0, false},
      {"head.norm.bias", 1, channels_, 0, 0, false},
      table_of("head.weight", shape, columns_, true),
  };
}

template <class Real>
double GptHead<Real>::operations(const Batch& batch) const {
  return LinearShape{batch.rows(), channels_, columns_.columns}.operations();
}

/// What the backward pass needs beside the input.
template <class Real>
struct GptHead<Real>::Saved {
  Real *mean, *scale, *sums, *normed, *logits;
};

template <class Real>
typename GptHead<Real>::Saved GptHead<Real>::parts(const Batch& batch, Real* saved) const {
  const std::size_t rows = batch.rows();
  return {saved, saved + rows, saved + 2 * rows, saved + 4 * rows, saved + (4 + channels_) * rows};
}

template <class Real>
void GptHead<Real>::forward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                            Real* /*output*/, Outcome& outcome) const {
  const Saved s = parts(batch, memory.saved);
  const auto& w = memory.weights;
  kernels<Real>().layer_norm(batch.rows(), channels_, input, w[0], w[1], s.normed, s.mean, s.scale);
  linear<Real>({batch.rows(), channels_, columns_.columns}, s.normed, w[2], nullptr, s.logits);
  loss_forward(columns_, batch, s.logits, s.sums, memory.scratch, outcome);
}

template <class Real>
void GptHead<Real>::backward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                             Real* /*d_output*/, Real* d_input, Real factor,
                             const typename Unit<Real>::Ready& ready) const {
  const std::size_t rows = batch.rows(), n = rows * channels_;
  const Saved s = parts(batch, memory.saved);
  const LinearShape shape{rows, channels_, columns_.columns};
  loss_backward(columns_, batch, s.sums, factor, s.logits);
  linear_backward_weights<Real>(shape, s.normed, s.logits, memory.gradients[2]);
  ready(2);
  linear_backward_input<Real>(shape, s.logits, memory.weights[2], memory.scratch);
  if (columns_.partners != nullptr) columns_.partners->sum({memory.scratch, n});
  std::fill_n(d_input, n, Real{});
  kernels<Real>().layer_norm_backward(rows, channels_, input, memory.weights[0], s.mean, s.scale,
                                      memory.scratch, d_input, memory.gradients[0],
                                      memory.gradients[1]);
  ready(1);
  ready(0);
}

template class GptEmbedding<float>;
template class GptEmbedding<double>;
template class GptHead<float>;
template class GptHead<double>;

}  // namespace training
