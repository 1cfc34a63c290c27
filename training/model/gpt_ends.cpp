// SPDX-License-Identifier: Apache-2.0
// Embedding and head of a GPT.
#include "gpt_ends.hpp"

#include <algorithm>

#include "linear.hpp"

namespace training {

template <class Real>
GptEmbedding<Real>::GptEmbedding(const GptShape& shape) : channels_(shape.channels) {
  this->name_ = "embedding";
  this->parameters_ = {
      {"embedding.tokens", shape.vocabulary, shape.channels, 0, 0.02F, false},
      {"embedding.positions", shape.positions, shape.channels, 0, 0.02F, false},
  };
}

template <class Real>
void GptEmbedding<Real>::forward(const Batch& batch, const Memory<Real>& memory,
                                 const Real* /*input*/, Real* output, Outcome& /*outcome*/) const {
  kernels<Real>().embed(batch.rows(), batch.tokens, channels_, batch.inputs.data(),
                        memory.weights[0], memory.weights[1], output);
}

template <class Real>
void GptEmbedding<Real>::backward(const Batch& batch, const Memory<Real>& memory,
                                  const Real* /*input*/, Real* d_output, Real* /*d_input*/,
                                  Real /*factor*/, const typename Unit<Real>::Ready& ready) const {
  for (std::size_t i = 0; i < 2; ++i)
    std::fill_n(memory.gradients[i], this->parameters_[i].size(), Real{});
  kernels<Real>().embed_backward(batch.rows(), batch.tokens, channels_, batch.inputs.data(),
                                 d_output, memory.gradients[0], memory.gradients[1]);
  ready(1);
  ready(0);
}

template <class Real>
GptHead<Real>::GptHead(const GptShape& shape)
    : channels_(shape.channels), vocabulary_(shape.vocabulary) {
  this->name_ = "head";
  this->parameters_ = {
      {"head.norm.gain", 1, channels_, 1, 0, false},
      {"head.norm.bias", 1, channels_, 0, 0, false},
      {"head.weight", vocabulary_, channels_, 0, 0.02F, true},
  };
}

template <class Real>
double GptHead<Real>::operations(const Batch& batch) const {
  return LinearShape{batch.rows(), channels_, vocabulary_}.operations();
}

template <class Real>
void GptHead<Real>::forward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                            Real* /*output*/, Outcome& outcome) const {
  const Kernels<Real>& k = kernels<Real>();
  const std::size_t rows = batch.rows();
  Real* mean = memory.saved;
  Real* scale = mean + rows;
  Real* normed = scale + rows;
  Real* logits = normed + rows * channels_;
  k.layer_norm(rows, channels_, input, memory.weights[0], memory.weights[1], normed, mean, scale);
  linear<Real>({rows, channels_, vocabulary_}, normed, memory.weights[2], nullptr, logits);
  for (std::size_t row = 0; row < rows; ++row) {
    const Real* first = logits + row * vocabulary_;
    outcome.right += std::max_element(first, first + vocabulary_) - first == batch.targets[row];
  }
  outcome.rows += count_rows(batch);
  outcome.loss += k.cross_entropy(rows, vocabulary_, logits, batch.targets.data(), logits);
}

template <class Real>
void GptHead<Real>::backward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                             Real* /*d_output*/, Real* d_input, Real factor,
                             const typename Unit<Real>::Ready& ready) const {
  const Kernels<Real>& k = kernels<Real>();
  const std::size_t rows = batch.rows();
  Real* mean = memory.saved;
  Real* scale = mean + rows;
  Real* normed = scale + rows;
  Real* logits = normed + rows * channels_;
  const LinearShape shape{rows, channels_, vocabulary_};
  k.cross_entropy_backward(rows, vocabulary_, batch.targets.data(),
                           factor, logits);
  linear_backward_weights<Real>(shape, normed, logits, memory.gradients[2]);
  ready(2);
  linear_backward_input<Real>(shape, logits, memory.weights[2], memory.scratch);
  std::fill_n(d_input, rows * channels_, Real{});
  k.layer_norm_backward(rows, channels_, input, memory.weights[0], mean, scale, memory.scratch,
                        d_input, memory.gradients[0], memory.gradients[1]);
  ready(1);
  ready(0);
}

template class GptEmbedding<float>;
template class GptEmbedding<double>;
template class GptHead<float>;
template class GptHead<double>;

}  // namespace training
