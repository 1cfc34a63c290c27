// SPDX-License-Identifier: Apache-2.0
// A model with all its memory: the plain way to run its units, for tests of their arithmetic.
#pragma once
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "layout/initial_weights.hpp"
#include "model/unit.hpp"

namespace training::test {

/// Its weights are the first values of seed 1.
template <class Real>
class ModelInMemory {
 public:
  explicit ModelInMemory(Units<Real> units) : units_(std::move(units)) {
    for (const auto& unit : units_) {
      for (const ParameterInfo& info : unit->parameters()) {
        std::vector<float> first(info.size());
        initial_values(info, 1, 0, first);
        infos_.push_back(info);
        weights_.emplace_back(first.begin(), first.end());
        gradients_.emplace_back(info.size());
      }
      buffers_.emplace_back();
      for (const ParameterInfo& info : unit->buffers())
        buffers_.back().emplace_back(info.size(), static_cast<Real>(info.mean));
    }
  }

  [[nodiscard]] const std::vector<ParameterInfo>& infos() const { return infos_; }
  std::vector<std::vector<Real>>& weights() { return weights_; }
  const std::vector<std::vector<Real>>& gradients() { return gradients_; }
  /// [unit][buffer]
  std::vector<std::vector<std::vector<Real>>>& buffers() { return buffers_; }

  Outcome forward(const Batch& batch, Mode mode = Mode::training) {
    Outcome outcome;
    inputs_.resize(units_.size() + 1);
    saved_.resize(units_.size());
    for (std::size_t u = 0; u < units_.size(); ++u) {
      inputs_[u + 1].assign(batch.rows() * units_[u]->width(), kUnwritten);
      saved_[u].assign(units_[u]->saved_size(batch), kUnwritten);
      Passing passing(*this, batch, u);
      passing.memory.mode = mode;
      units_[u]->forward(batch, passing.memory, inputs_[u].data(), inputs_[u + 1].data(), outcome);
    }
    return outcome;
  }

  /// The gradients of factor * (summed loss) of the batch of the last forward pass. Returns the
  /// parameters in the order in which they became ready.
  std::vector<std::size_t> backward(const Batch& batch, Real factor) {
    std::vector<std::size_t> order;
    std::vector<Real> d_output, d_input;
    std::size_t first = infos_.size();  // parameter of the unit
    for (std::size_t u = units_.size(); u-- > 0;) {
      first -= units_[u]->parameters().size();
      d_input.assign(inputs_[u].size(), kUnwritten);
      const Passing passing(*this, batch, u);
      units_[u]->backward(batch, passing.memory, inputs_[u].data(), d_output.data(), d_input.data(),
                          factor, [&](std::size_t i) { order.push_back(first + i); });
      std::swap(d_output, d_input);
    }
    return order;
  }

 private:
  /// A number that spoils the results if a pass reads what it should have written.
  static constexpr Real kUnwritten = Real{12345};

  struct Passing {
    Passing(ModelInMemory& model, const Batch& batch, std::size_t u)
        : scratch(model.units_[u]->scratch_size(batch), kUnwritten) {
      std::size_t at = 0;
      for (std::size_t before = 0; before < u; ++before)
        at += model.units_[before]->parameters().size();
      for (std::size_t i = 0; i < model.units_[u]->parameters().size(); ++i, ++at) {
        weights.push_back(model.weights_[at].data());
        gradients.push_back(model.gradients_[at].data());
      }
      for (auto& buffer : model.buffers_[u]) buffers.push_back(buffer.data());
      memory = {weights, gradients, model.saved_[u].data(), scratch.data(), buffers};
    }
    std::vector<const Real*> weights;
    std::vector<Real*> gradients, buffers;
    std::vector<Real> scratch;
    Memory<Real> memory;
  };

  Units<Real> units_;
  std::vector<ParameterInfo> infos_;
  std::vector<std::vector<Real>> weights_, gradients_, inputs_, saved_;
  std::vector<std::vector<std::vector<Real>>> buffers_;
};

/// A batch of random inputs below `kinds`, and random targets, a tenth of which do not count.
struct RandomBatch {
  RandomBatch(std::size_t sequences, std::size_t tokens, std::size_t pixels, std::size_t kinds,
              std::size_t classes, std::mt19937_64& random)
      : inputs(sequences * tokens * pixels), targets(sequences * tokens) {
    for (auto& input : inputs) input = static_cast<std::int32_t>(random() % kinds);
    for (auto& target : targets)
      target = random() % 10 == 0 ? -1 : static_cast<std::int32_t>(random() % classes);
    batch = {sequences, tokens, inputs, targets};
  }
  RandomBatch(const RandomBatch&) = delete;
  RandomBatch& operator=(const RandomBatch&) = delete;
  std::vector<std::int32_t> inputs, targets;
  Batch batch;
};

}  // namespace training::test
