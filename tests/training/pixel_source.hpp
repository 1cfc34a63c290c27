// SPDX-License-Identifier: Apache-2.0
// Images of noise, for tests that train the MLP.
#pragma once
#include <random>

#include "data/source.hpp"

namespace training {

/// Four images of eight pixels and ten classes.
class PixelSource final : public Source {
 public:
  const Shape& shape() const override { return shape_; }
  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const override {
    std::mt19937_64 random(number);
    for (std::int32_t& input : inputs) input = static_cast<std::int32_t>(random() % 256);
    for (std::int32_t& target : targets) target = static_cast<std::int32_t>(random() % 10);
  }
  std::size_t rows(std::uint64_t) const override { return shape_.targets(); }
  std::uint64_t epoch() const override { return 0; }
  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const override {
    fill(~number, inputs, targets);
  }
  std::uint64_t validations() const override { return 4; }
  double entropy() const override { return 0; }
  std::string describe() const override { return "noise"; }

 private:
  Shape shape_{4, 1, 8, 10};
};

}  // namespace training
