// SPDX-License-Identifier: Apache-2.0
// Measures the product of matrices.
#include "peak_flops.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "../math/kernels.hpp"

namespace training {
namespace {

/// Seconds of one product of n x n matrices.
double time_product(std::size_t n) {
  const std::vector<float> a(n * n, 0.5F), b(n * n, 0.25F);
  std::vector<float> c(n * n);
  const auto begin = std::chrono::steady_clock::now();
  kernels<float>().product(false, false, n, n, n, a.data(), n, b.data(), n, 0.0F, c.data(), n);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::max(seconds, 1e-9);
}

}  // namespace

double peak_flops(double seconds) {
  constexpr std::size_t kSmallest = 128, kLargest = 4096;
  time_product(kSmallest);  // the first one starts threads and takes memory
  double best = 0, spent = 0;
  for (std::size_t n = kSmallest;;) {
    const double time = time_product(n);
    const double size = static_cast<double>(n);
    best = std::max(best, 2 * size * size * size / time);
    spent += time;
    if (n < kLargest && 8 * time <= seconds / 2) {
      n *= 2;
    } else if (spent + time > seconds) {
      return best;
    }
  }
}

}  // namespace training
