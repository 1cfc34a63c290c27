// SPDX-License-Identifier: Apache-2.0
// A network with one hidden layer, its loss and gradient.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fashion_mnist_data.hpp"

namespace fashion {

constexpr std::size_t kHidden = 128;

/// All parameters lie in one array, and so do their gradients: one all_reduce takes them all.
class Model {
 public:
  /// Everywhere the same for the same seed.
  explicit Model(std::uint32_t seed);

  [[nodiscard]] std::span<float> parameters() { return parameters_; }

  /// Adds the gradient of the summed loss over the images `chosen` to `gradient`; returns that sum.
  float add_gradient(const Images& images, std::span<const std::uint32_t> chosen,
                     std::span<float> gradient);

  /// How many of `chosen` are recognised.
  std::size_t count_right(const Images& images, std::span<const std::uint32_t> chosen);

 private:
  void forward(const Images& images, std::span<const std::uint32_t> chosen);

  std::vector<float> parameters_;
  // Activations of the images in hand, one row per image (and the pixels by column as well).
  std::vector<float> pixels_, pixels_by_column_, hidden_, hidden_by_column_, out_;
  std::vector<float> hidden_gradient_, out_weights_by_column_;
};

}  // namespace fashion
