// SPDX-License-Identifier: Apache-2.0
// The layers of the network for images.
#include "mlp.hpp"

#include <algorithm>
#include <cmath>

#include "batch_norm.hpp"
#include "linear.hpp"
#include "loss.hpp"

namespace training {
namespace {

/// A layer's shape and parameters; the first one turns pixels into numbers.
template <class Real>
class Layer : public Unit<Real> {
 public:
  Layer(const std::string& name, std::size_t in, std::size_t out, bool first)
      : in_(in), out_(out), first_(first) {
    this->name_ = name;
    const float deviation = std::sqrt(2.0F / static_cast<float>(in));  // He et al. 2015
    this->parameters_ = {{name + ".weight", out, in, 0, deviation, true},
                         {name + ".bias", 1, out, 0, 0, false}};
  }
  double operations(const Batch& batch) const override { return shape(batch).operations(); }

 protected:
  LinearShape shape(const Batch& batch) const { return {batch.sequences, in_, out_}; }
  std::size_t pixels(const Batch& batch) const { return first_ ? batch.sequences * in_ : 0; }

  /// The layer's input: `input`, or the pixels as numbers, which it writes to `saved`.
  const Real* inputs(const Batch& batch, const Real* input, Real* saved) const {
    if (!first_) return input;
    for (std::size_t i = 0; i < pixels(batch); ++i)
      saved[i] = static_cast<Real>(batch.inputs[i]) / 255;
    return saved;
  }

  void backward_layer(const Batch& batch, const Memory<Real>& memory, const Real* input,
                      const Real* d_sums, Real* d_input,
                      const typename Unit<Real>::Ready& ready) const {
    kernels<Real>().sum_rows(batch.sequences, out_, d_sums, memory.gradients[1]);
    ready(1);
    backward_product(batch, memory, input, d_sums, d_input, ready);
  }
  void backward_product(const Batch& batch, const Memory<Real>& memory, const Real* input,
                        const Real* d_sums, Real* d_input,
                        const typename Unit<Real>::Ready& ready) const {
    linear_backward_weights(shape(batch), first_ ? memory.saved : input, d_sums,
                            memory.gradients[0]);
    ready(0);
    if (!first_) linear_backward_input(shape(batch), d_sums, memory.weights[0], d_input);
  }

  std::size_t in_, out_;
  bool first_;
};

template <class Real>
class Dense final : public Layer<Real> {
 public:
  using Layer<Real>::Layer;
  std::size_t width() const override { return this->out_; }
  std::size_t saved_size(const Batch& batch) const override {
    return this->pixels(batch) + batch.sequences * this->out_;
  }
  std::size_t scratch_size(const Batch&) const override { return 0; }

  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& /*outcome*/) const override {
    const Real* x = this->inputs(batch, input, memory.saved);
    Real* sums = memory.saved + this->pixels(batch);
    linear(this->shape(batch), x, memory.weights[0], memory.weights[1], sums);
    kernels<Real>().gelu(batch.sequences * this->out_, sums, output);
  }

  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real /*factor*/,
                const typename Unit<Real>::Ready& ready) const override {
    kernels<Real>().gelu_backward(batch.sequences * this->out_, memory.saved + this->pixels(batch),
                                  d_output, d_output);
    this->backward_layer(batch, memory, input, d_output, d_input, ready);
  }
};

/// Normalises before the activation. It has no bias: the mean that it takes off would cancel it.
template <class Real>
class NormedDense final : public Layer<Real> {
 public:
  NormedDense(const std::string& name, std::size_t in, std::size_t out, bool first)
      : Layer<Real>(name, in, out, first) {
    this->parameters_.pop_back();
    this->parameters_.push_back({name + ".norm.gain", 1, out, 1, 0, false});
    this->parameters_.push_back({name + ".norm.bias", 1, out, 0, 0, false});
    this->buffers_ = {{name + ".norm.running_mean", 1, out, 0, 0, false},
                      {name + ".norm.running_var", 1, out, 1, 0, false}};
  }
  std::size_t width() const override { return this->out_; }
  std::size_t saved_size(const Batch& batch) const override {
    return this->pixels(batch) + (2 * batch.sequences + 2) * this->out_;
  }
  std::size_t scratch_size(const Batch&) const override { return 0; }

  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* output,
               Outcome& /*outcome*/) const override {
    const Saved saved(*this, batch, memory);
    const Real* x = this->inputs(batch, input, memory.saved);
    linear<Real>(this->shape(batch), x, memory.weights[0], nullptr, saved.sums);
    const std::size_t rows = batch.sequences, columns = this->out_;
    if (memory.mode == Mode::evaluation) {
      std::copy_n(memory.buffers[0], columns, saved.mean);
      std::copy_n(memory.buffers[1], columns, saved.scale);
    } else {
      batch_statistics(rows, columns, saved.sums, saved.mean, saved.scale);
      if (memory.mode == Mode::training)
        run_statistics(rows, columns, saved.mean, saved.scale, memory.buffers[0],
                       memory.buffers[1]);
    }
    variance_to_scale(columns, saved.scale);
    batch_norm(rows, columns, saved.sums, saved.mean, saved.scale, memory.weights[1],
               memory.weights[2], saved.normed);
    kernels<Real>().gelu(rows * columns, saved.normed, output);
  }

  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* d_output,
                Real* d_input, Real /*factor*/,
                const typename Unit<Real>::Ready& ready) const override {
    const Saved saved(*this, batch, memory);
    const std::size_t rows = batch.sequences, columns = this->out_;
    kernels<Real>().gelu_backward(rows * columns, saved.normed, d_output, d_output);
    batch_norm_backward(rows, columns, saved.sums, saved.mean, saved.scale, memory.weights[1],
                        d_output, memory.gradients[1], memory.gradients[2]);
    ready(2);
    ready(1);
    this->backward_product(batch, memory, input, d_output, d_input, ready);
  }

 private:
  struct Saved {
    Saved(const NormedDense& layer, const Batch& batch, const Memory<Real>& memory)
        : sums(memory.saved + layer.pixels(batch)),
          normed(sums + batch.sequences * layer.out_),
          mean(normed + batch.sequences * layer.out_),
          scale(mean + layer.out_) {}
    Real *sums, *normed, *mean, *scale;
  };
};

template <class Real>
class Classifier final : public Layer<Real> {
 public:
  using Layer<Real>::Layer;
  std::size_t width() const override { return 0; }
  std::size_t saved_size(const Batch& batch) const override {
    return this->pixels(batch) + batch.sequences * (this->out_ + 2);
  }
  std::size_t scratch_size(const Batch& batch) const override { return batch.sequences; }

  void forward(const Batch& batch, const Memory<Real>& memory, const Real* input, Real* /*output*/,
               Outcome& outcome) const override {
    const Real* x = this->inputs(batch, input, memory.saved);
    Real* logits = memory.saved + this->pixels(batch);
    linear(this->shape(batch), x, memory.weights[0], memory.weights[1], logits);
    loss_forward<Real>({.columns = this->out_}, batch, logits, sums(batch, memory), memory.scratch,
                       outcome);
  }

  void backward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                Real* /*d_output*/, Real* d_input, Real factor,
                const typename Unit<Real>::Ready& ready) const override {
    Real* logits = memory.saved + this->pixels(batch);
    loss_backward<Real>({.columns = this->out_}, batch, sums(batch, memory), factor, logits);
    this->backward_layer(batch, memory, input, logits, d_input, ready);
  }

 private:
  Real* sums(const Batch& batch, const Memory<Real>& memory) const {
    return memory.saved + this->pixels(batch) + batch.sequences * this->out_;
  }
};

}  // namespace

template <class Real>
Units<Real> mlp_units(const MlpShape& shape) {
  Units<Real> units;
  std::size_t in = shape.pixels;
  for (const std::size_t out : shape.hidden) {
    const std::string name = "dense" + std::to_string(units.size());
    if (shape.batch_norm)
      units.push_back(std::make_unique<NormedDense<Real>>(name, in, out, units.empty()));
    else
      units.push_back(std::make_unique<Dense<Real>>(name, in, out, units.empty()));
    in = out;
  }
  units.push_back(
      std::make_unique<Classifier<Real>>("classifier", in, shape.classes, units.empty()));
  return units;
}

template Units<float> mlp_units(const MlpShape&);
template Units<double> mlp_units(const MlpShape&);

}  // namespace training
