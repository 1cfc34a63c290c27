// SPDX-License-Identifier: Apache-2.0
// Rounds block by block.
#include "int8_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace training::int8_blocks {
namespace {

constexpr float kMost = 127;

/// The largest size; NaN if a number is not finite.
float largest(std::span<const float> numbers) {
  std::uint32_t bits = 0;
  for (const float x : numbers)
    bits = std::max(bits, std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
  return bits < 0x7f800000U ? std::bit_cast<float>(bits) : std::numeric_limits<float>::quiet_NaN();
}

/// To the nearest integer, ties to the even one: up to 2^22, f32 has no bits left below 1.
float round_to_integer(float x) {
  constexpr float kShift = 12582912;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}

template <class Visit>
void for_each_block(std::size_t count, Visit visit) {
  for (std::size_t begin = 0; begin < count; begin += kBlock)
    visit(begin / kBlock, begin, std::min(kBlock, count - begin));
}

template <class Use>
void for_each_number(const std::byte* code, std::size_t count, Use use) {
  const auto* scales = reinterpret_cast<const float*>(code);
  const auto* integers = reinterpret_cast<const std::int8_t*>(scales + blocks_of(count));
  for_each_block(count, [&](std::size_t block, std::size_t begin, std::size_t size) {
    for (std::size_t i = begin; i < begin + size; ++i)
      use(i, scales[block] * static_cast<float>(integers[i]));
  });
}

}  // namespace

void encode(std::span<float> numbers, std::byte* code) {
  auto* scales = reinterpret_cast<float*>(code);
  auto* integers = reinterpret_cast<std::int8_t*>(scales + blocks_of(numbers.size()));
  for_each_block(numbers.size(), [&](std::size_t block, std::size_t begin, std::size_t size) {
    const auto x = numbers.subspan(begin, size);
    const float scale = largest(x) / kMost;
    scales[block] = scale;
    // Sizes below 127 * 2^-149 have the scale 0, and NaN has no integer: both are coded as 0.
    const float divisor = scale > 0 ? scale : std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < size; ++i) {
      const float ratio = x[i] / divisor;
      const float q = ratio == ratio ? std::clamp(round_to_integer(ratio), -kMost, kMost) : 0;
      integers[begin + i] = static_cast<std::int8_t>(q);
      x[i] -= scale * q;
    }
  });
}

void decode(const std::byte* code, std::span<float> numbers) {
  for_each_number(code, numbers.size(), [&](std::size_t i, float x) { numbers[i] = x; });
}

void add(const std::byte* code, std::span<float> sums) {
  for_each_number(code, sums.size(), [&](std::size_t i, float x) { sums[i] += x; });
}

}  // namespace training::int8_blocks
