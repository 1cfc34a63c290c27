// SPDX-License-Identifier: Apache-2.0
// The model and the data of measurements with virtual compute: a GPT of eight units that take
// equally long, and tokens that mean nothing.
#pragma once
#include <algorithm>

#include "../data/source.hpp"
#include "../model/gpt.hpp"
#include "../model/sleeping_unit.hpp"
#include "../optimizer/optimizer.hpp"

namespace training {

inline GptShape virtual_shape(std::size_t channels) {
  return {.vocabulary = 64, .positions = 8, .channels = channels, .blocks = 6, .heads = 4};
}

inline Units<float> virtual_units(std::size_t channels, std::chrono::nanoseconds forward) {
  return sleeping_units(gpt_units<float>(virtual_shape(channels)), forward);
}

class VirtualSource final : public Source {
 public:
  const Shape& shape() const override { return shape_; }
  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const override {
    const auto token = static_cast<std::int32_t>(number % shape_.kinds);
    std::ranges::fill(inputs, token);
    std::ranges::fill(targets, token);
  }
  std::size_t rows(std::uint64_t /*number*/) const override { return shape_.targets(); }
  std::uint64_t epoch() const override { return 0; }
  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const override {
    fill(number, inputs, targets);
  }
  std::uint64_t validations() const override { return 0; }
  double entropy() const override { return 0; }
  std::string describe() const override { return "tokens that mean nothing"; }

 private:
  Shape shape_{1, virtual_shape(1).positions, 1, virtual_shape(1).vocabulary};
};

class VirtualOptimizer final : public Optimizer {
 public:
  void begin(std::size_t /*bucket*/, std::span<const float> /*weights*/) override {}
  void update(std::size_t /*bucket*/, const Update& /*update*/, const void* /*gradients*/,
              void* /*weights*/) override {}
  void finish(std::size_t /*bucket*/) override {}
  void read(std::size_t /*bucket*/, State /*state*/, std::size_t /*first*/,
            std::span<float> to) override {
    std::ranges::fill(to, 0.0F);
  }
  void write(std::size_t /*bucket*/, State /*state*/, std::size_t /*first*/,
             std::span<const float> /*from*/) override {}
  void move_to(const FlatLayout& /*layout*/) override {}
};

}  // namespace training
