// SPDX-License-Identifier: Apache-2.0
// The network's arithmetic, in plain loops that compilers vectorise.
#include "fashion_mnist_model.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace fashion {
namespace {

// Where each part of the parameters starts.
constexpr std::size_t kWeights1 = 0;                            // kPixels x kHidden
constexpr std::size_t kBias1 = kWeights1 + kPixels * kHidden;   // kHidden
constexpr std::size_t kWeights2 = kBias1 + kHidden;             // kHidden x kClasses
constexpr std::size_t kBias2 = kWeights2 + kHidden * kClasses;  // kClasses
constexpr std::size_t kParameters = kBias2 + kClasses;

/// c[rows x columns] += a[rows x inner] * b[inner x columns], all by row. Zeros in `a` (half of all
/// pixels are background) cost nothing.
template <std::size_t kTile>
[[gnu::always_inline]] inline void multiply_tile(std::size_t inner, const float* a, const float* b,
                                                 std::size_t columns, float* c) {
  float sum[kTile];
  for (std::size_t j = 0; j < kTile; ++j) sum[j] = c[j];
  for (std::size_t k = 0; k < inner; ++k) {
    const float factor = a[k];
    if (factor == 0) continue;
    for (std::size_t j = 0; j < kTile; ++j) sum[j] += factor * b[k * columns + j];
  }
  for (std::size_t j = 0; j < kTile; ++j) c[j] = sum[j];
}

[[gnu::always_inline]] inline void multiply_rows(std::size_t rows, std::size_t inner,
                                                 std::size_t columns, const float* a,
                                                 const float* b, float* c) {
  for (std::size_t i = 0; i < rows; ++i, a += inner, c += columns) {
    std::size_t j = 0;
    for (; j + 64 <= columns; j += 64) multiply_tile<64>(inner, a, b + j, columns, c + j);
    for (; j + kClasses <= columns; j += kClasses)
      multiply_tile<kClasses>(inner, a, b + j, columns, c + j);
    for (; j < columns; ++j) multiply_tile<1>(inner, a, b + j, columns, c + j);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(std::size_t rows, std::size_t inner,
                                               std::size_t columns, const float* a, const float* b,
                                               float* c) {
  multiply_rows(rows, inner, columns, a, b, c);
}
#endif

void multiply_add(std::size_t rows, std::size_t inner, std::size_t columns, const float* a,
                  const float* b, float* c) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return multiply_avx2(rows, inner, columns, a, b, c);
#endif
  multiply_rows(rows, inner, columns, a, b, c);
}

void transpose(std::size_t rows, std::size_t columns, const float* from, std::vector<float>& to) {
  to.resize(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

/// Starts every row with the bias.
void fill_rows(std::size_t rows, const float* bias, std::size_t columns, std::vector<float>& to) {
  to.resize(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    std::copy(bias, bias + columns, to.begin() + static_cast<std::ptrdiff_t>(i * columns));
}

}  // namespace

Model::Model(std::uint32_t seed) : parameters_(kParameters) {
  // Uniform with variance 2 / inputs (He). The distributions of <random> differ between standard
  // libraries, the generator does not.
  std::mt19937 generator(seed);
  auto uniform = [&](float limit) {
    return (static_cast<float>(generator() >> 8) * 0x1p-23F - 1) * limit;
  };
  const float limit1 = std::sqrt(6.0F / kPixels), limit2 = std::sqrt(6.0F / kHidden);
  for (std::size_t i = kWeights1; i < kBias1; ++i) parameters_[i] = uniform(limit1);
  for (std::size_t i = kWeights2; i < kBias2; ++i) parameters_[i] = uniform(limit2);
}

void Model::forward(const Images& images, std::span<const std::uint32_t> chosen) {
  const float* p = parameters_.data();
  pixels_.resize(chosen.size() * kPixels);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (std::size_t j = 0; j < kPixels; ++j)
      pixels_[i * kPixels + j] =
          static_cast<float>(images.pixels[chosen[i] * kPixels + j]) * (1.0F / 255);
  fill_rows(chosen.size(), p + kBias1, kHidden, hidden_);
  multiply_add(chosen.size(), kPixels, kHidden, pixels_.data(), p + kWeights1, hidden_.data());
  for (float& value : hidden_) value /= 1 + std::fabs(value);
  fill_rows(chosen.size(), p + kBias2, kClasses, out_);
  multiply_add(chosen.size(), kHidden, kClasses, hidden_.data(), p + kWeights2, out_.data());
}

float Model::add_gradient(const Images& images, std::span<const std::uint32_t> chosen,
                          std::span<float> gradient) {
  forward(images, chosen);
  const std::size_t rows = chosen.size();
  double loss = 0;
  for (std::size_t i = 0; i < rows; ++i) {  // out becomes the gradient: softmax - truth
    float* out = out_.data() + i * kClasses;
    const std::size_t truth = images.labels[chosen[i]];
    const float most = *std::max_element(out, out + kClasses);
    float sum = 0;
    loss += static_cast<double>(most - out[truth]);
    for (std::size_t j = 0; j < kClasses; ++j) sum += out[j] = std::exp(out[j] - most);
    loss += std::log(static_cast<double>(sum));
    for (std::size_t j = 0; j < kClasses; ++j) out[j] /= sum;
    out[truth] -= 1;
  }
  float* g = gradient.data();
  transpose(rows, kHidden, hidden_.data(), hidden_by_column_);
  multiply_add(kHidden, rows, kClasses, hidden_by_column_.data(), out_.data(), g + kWeights2);
  transpose(kHidden, kClasses, parameters_.data() + kWeights2, out_weights_by_column_);
  hidden_gradient_.assign(rows * kHidden, 0);
  multiply_add(rows, kClasses, kHidden, out_.data(), out_weights_by_column_.data(),
               hidden_gradient_.data());
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    const float slope = 1 - std::fabs(hidden_[i]);
    hidden_gradient_[i] *= slope * slope;
  }
  transpose(rows, kPixels, pixels_.data(), pixels_by_column_);
  multiply_add(kPixels, rows, kHidden, pixels_by_column_.data(), hidden_gradient_.data(),
               g + kWeights1);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < kHidden; ++j) g[kBias1 + j] += hidden_gradient_[i * kHidden + j];
    for (std::size_t j = 0; j < kClasses; ++j) g[kBias2 + j] += out_[i * kClasses + j];
  }
  return static_cast<float>(loss);
}

std::size_t Model::count_right(const Images& images, std::span<const std::uint32_t> chosen) {
  std::size_t right = 0;
  for (std::size_t at = 0; at < chosen.size(); at += 256) {
    const auto some = chosen.subspan(at, std::min<std::size_t>(256, chosen.size() - at));
    forward(images, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const float* out = out_.data() + i * kClasses;
      const auto best = static_cast<std::size_t>(std::max_element(out, out + kClasses) - out);
      right += best == images.labels[some[i]] ? 1U : 0U;
    }
  }
  return right;
}

}  // namespace fashion
