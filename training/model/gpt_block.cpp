// SPDX-License-Identifier: Apache-2.0
// The passes of a block, kernel by kernel.
#include "gpt_block.hpp"

#include <algorithm>
#include <cmath>

#include "linear.hpp"

namespace training {
namespace {
// The parameters, in this order.
enum : std::size_t {
  kNorm1Gain,
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kProj,
  kProjBias,
  kNorm2Gain,
  kNorm2Bias,
  kUp,
  kUpBias,
  kDown,
  kDownBias
};
}  // namespace

template <class Real>
GptBlock<Real>::GptBlock(const GptShape& shape, std::size_t index, Partners<Real>* partners)
    : channels_(shape.channels),
      heads_(shape.heads / (partners != nullptr ? partners->ranks() : 1)),
      width_(shape.channels / shape.heads),
      hidden_(4 * shape.channels / (partners != nullptr ? partners->ranks() : 1)),
      partners_(partners) {
  this->name_ = "block" + std::to_string(index);
  const std::size_t c = channels_, own = heads_ * width_;
  constexpr float kDeviation = 0.02F;
  // Those that add to the residual stream, as GPT-2 scales them.
  const float residual = kDeviation / std::sqrt(2 * static_cast<float>(shape.blocks));
  const auto add = [&](const char* name, std::size_t rows, std::size_t columns, float mean,
                       float deviation, const Slice& slice = {}) {
    this->parameters_.push_back({this->name_ + "." + name, rows, columns, mean, deviation,
                                 deviation > 0, partners != nullptr ? slice : Slice{}});
  };
  const std::size_t rank = partners != nullptr ? partners->rank() : 0;
  const std::size_t head = rank * own, hidden = rank * hidden_;  // the first that this rank has
  add("norm1.gain", 1, c, 1, 0);
  add("norm1.bias", 1, c, 0, 0);
  add("qkv.weight", 3 * own, c, 0, kDeviation, {3 * c, c, head, 0, 3});
  add("qkv.bias", 1, 3 * own, 0, 0, {3 * c, 1, head, 0, 3});
  add("proj.weight", c, own, 0, residual, {c, c, 0, head});
  add("proj.bias", 1, c, 0, 0);
  add("norm2.gain", 1, c, 1, 0);
  add("norm2.bias", 1, c, 0, 0);
  add("up.weight", hidden_, c, 0, kDeviation, {4 * c, c, hidden, 0});
  add("up.bias", 1, hidden_, 0, 0, {4 * c, 1, hidden, 0});
  add("down.weight", c, hidden_, 0, residual, {c, 4 * c, 0, hidden});
  add("down.bias", 1, c, 0, 0);
}

/// What the backward pass needs beside the input.
template <class Real>
struct GptBlock<Real>::Saved {
  Real *mean1, *scale1, *norm1, *qkv, *probabilities, *mixed, *middle, *mean2, *scale2, *norm2, *up,
      *hidden;
  Real* end;
};

template <class Real>
typename GptBlock<Real>::Saved GptBlock<Real>::parts(const Batch& batch, Real* saved) const {
  const std::size_t rows = batch.rows();
  const auto take = [&](std::size_t size) {
    Real* at = saved;
    saved += size;
    return at;
  };
  Saved s{};
  s.mean1 = take(rows);
  s.scale1 = take(rows);
  s.norm1 = take(rows * channels_);
  s.qkv = take(rows * 3 * heads_ * width_);
  s.probabilities = take(rows * heads_ * batch.tokens);
  s.mixed = take(rows * heads_ * width_);
  s.middle = take(rows * channels_);
  s.mean2 = take(rows);
  s.scale2 = take(rows);
  s.norm2 = take(rows * channels_);
  s.up = take(rows * hidden_);
  s.hidden = take(rows * hidden_);
  s.end = saved;
  return s;
}

template <class Real>
std::size_t GptBlock<Real>::saved_size(const Batch& batch) const {
  return batch.rows() *
         (4 + 3 * channels_ + 4 * heads_ * width_ + heads_ * batch.tokens + 2 * hidden_);
}

template <class Real>
std::size_t GptBlock<Real>::scratch_size(const Batch& batch) const {
  return batch.rows() * std::max(hidden_, 4 * heads_ * width_) + batch.rows() * channels_ +
         batch.tokens * batch.tokens;
}

template <class Real>
double GptBlock<Real>::operations(const Batch& batch) const {
  const std::size_t rows = batch.rows(), own = heads_ * width_;
  return LinearShape{rows, channels_, 3 * own}.operations() +
         LinearShape{rows, own, channels_}.operations() +
         LinearShape{rows, channels_, hidden_}.operations() * 2 +
         4.0 * static_cast<double>(rows * batch.tokens * own);
}

template <class Real>
void GptBlock<Real>::forward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                             Real* output, Outcome& /*outcome*/) const {
  const Kernels<Real>& k = kernels<Real>();
  const auto& w = memory.weights;
  const Saved s = parts(batch, memory.saved);
  const std::size_t rows = batch.rows(), own = heads_ * width_, n = rows * channels_;

  k.layer_norm(rows, channels_, input, w[kNorm1Gain], w[kNorm1Bias], s.norm1, s.mean1, s.scale1);
  linear<Real>({rows, channels_, 3 * own}, s.norm1, w[kQkv], w[kQkvBias], s.qkv);
  k.attention({batch.sequences, batch.tokens, heads_, width_}, k.product, s.qkv, s.probabilities,
              s.mixed);
  linear<Real>({rows, own, channels_}, s.mixed, w[kProj], nullptr, s.middle);
  sum({s.middle, n});
  k.add_rows(rows, channels_, w[kProjBias], s.middle);
  k.add(n, input, s.middle);

  k.layer_norm(rows, channels_, s.middle, w[kNorm2Gain], w[kNorm2Bias], s.norm2, s.mean2, s.scale2);
  linear<Real>({rows, channels_, hidden_}, s.norm2, w[kUp], w[kUpBias], s.up);
  k.gelu(rows * hidden_, s.up, s.hidden);
  linear<Real>({rows, hidden_, channels_}, s.hidden, w[kDown], nullptr, output);
  sum({output, n});
  k.add_rows(rows, channels_, w[kDownBias], output);
  k.add(n, s.middle, output);
}

template <class Real>
void GptBlock<Real>::backward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                              Real* d_output, Real* d_input, Real /*factor*/,
                              const typename Unit<Real>::Ready& ready) const {
  const Kernels<Real>& k = kernels<Real>();
  const auto& w = memory.weights;
  const auto& g = memory.gradients;
  const Saved s = parts(batch, memory.saved);
  const std::size_t rows = batch.rows(), own = heads_ * width_, n = rows * channels_;
  Real* wide = memory.scratch;
  Real* normed = wide + rows * std::max(hidden_, 4 * own);
  Real* square = normed + n;

  const LinearShape down{rows, hidden_, channels_}, up{rows, channels_, hidden_};
  k.sum_rows(rows, channels_, d_output, g[kDownBias]);
  ready(kDownBias);
  linear_backward_weights(down, s.hidden, d_output, g[kDown]);
  ready(kDown);
  linear_backward_input(down, d_output, w[kDown], wide);
  k.gelu_backward(rows * hidden_, s.up, wide, wide);
  k.sum_rows(rows, hidden_, wide, g[kUpBias]);
  ready(kUpBias);
  linear_backward_weights(up, s.norm2, wide, g[kUp]);
  ready(kUp);
  linear_backward_input(up, wide, w[kUp], normed);
  sum({normed, n});
  // d_output becomes the gradient of `middle`: directly, and through norm2.
  k.layer_norm_backward(rows, channels_, s.middle, w[kNorm2Gain], s.mean2, s.scale2, normed,
                        d_output, g[kNorm2Gain], g[kNorm2Bias]);
  ready(kNorm2Bias);
  ready(kNorm2Gain);

  const LinearShape proj{rows, own, channels_}, qkv{rows, channels_, 3 * own};
  k.sum_rows(rows, channels_, d_output, g[kProjBias]);
  ready(kProjBias);
  linear_backward_weights(proj, s.mixed, d_output, g[kProj]);
  ready(kProj);
  Real* d_mixed = wide;
  Real* d_qkv = wide + rows * own;
  linear_backward_input(proj, d_output, w[kProj], d_mixed);
  k.attention_backward({batch.sequences, batch.tokens, heads_, width_}, k.product, s.qkv,
                       s.probabilities, d_mixed, d_qkv, square);
  k.sum_rows(rows, 3 * own, d_qkv, g[kQkvBias]);
  ready(kQkvBias);
  linear_backward_weights(qkv, s.norm1, d_qkv, g[kQkv]);
  ready(kQkv);
  linear_backward_input(qkv, d_qkv, w[kQkv], normed);
  sum({normed, n});
  std::copy(d_output, d_output + n, d_input);
  k.layer_norm_backward(rows, channels_, input, w[kNorm1Gain], s.mean1, s.scale1, normed, d_input,
                        g[kNorm1Gain], g[kNorm1Bias]);
  ready(kNorm1Bias);
  ready(kNorm1Gain);
}

template class GptBlock<float>;
template class GptBlock<double>;

}  // namespace training
