// SPDX-License-Identifier: Apache-2.0
// Normal numbers from Philox by the transformation of Box and Muller (1958, "A note on the
// generation of random normal deviates"): with u, v uniform in (0, 1),
//
//   r = sqrt(-2 ln u), z0 = r cos(2 pi v), z1 = r sin(2 pi v).
//
// Four elements in a row share a counter: (element / 4, hash of the name), the key is the seed.
#include "initial_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "../math/philox.hpp"

namespace training {
namespace {

/// FNV-1a of 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

std::array<double, 4> four_normals(std::uint64_t four, std::uint64_t name, std::uint64_t seed) {
  const RandomWords bits =
      philox({low_word(four), high_word(four), low_word(name), high_word(name)}, seed);
  const auto uniform = [&](std::size_t i) { return (bits[i] + 0.5) * 0x1p-32; };
  std::array<double, 4> normals{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform(i)));
    const double angle = 2 * std::numbers::pi * uniform(i + 1);
    normals[i] = radius * std::cos(angle);
    normals[i + 1] = radius * std::sin(angle);
  }
  return normals;
}

}  // namespace

void initial_values(const ParameterInfo& parameter, std::uint64_t seed, std::size_t first,
                    std::span<float> to) {
  if (parameter.deviation == 0) {
    std::ranges::fill(to, parameter.mean);
    return;
  }
  const std::uint64_t name = hash_of(parameter.name);
  const double mean = static_cast<double>(parameter.mean);
  const double deviation = static_cast<double>(parameter.deviation);
  std::uint64_t made = ~std::uint64_t{0};
  std::array<double, 4> normals{};
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t element = parameter.whole_index(first + i);
    if (element / 4 != made) {
      made = element / 4;
      normals = four_normals(made, name, seed);
    }
    to[i] = static_cast<float>(mean + deviation * normals[element % 4]);
  }
}

}  // namespace training
