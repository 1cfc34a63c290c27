// SPDX-License-Identifier: Apache-2.0
// Numbers of each format to f32 and back, and their sums.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lanes.hpp"

namespace training::TRAINING_ISA {

struct PlainFloat {
  using Stored = float;
  static float widen(float value) { return value; }
  static float narrow(float value) { return value; }
};

struct BrainFloat {
  using Stored = std::uint16_t;
  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    const bool strange = (bits & 0x7fffffffU) > 0x7f800000U;  // NaN: stays one
    return static_cast<std::uint16_t>(strange ? (bits >> 16U) | 0x40U : rounded);
  }
};

/// f16 without the processor's own conversions: the arithmetic of f32 does the rounding.
struct HalfFloat {
  using Stored = std::uint16_t;
  static float widen(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U, rest = bits & 0x7fffU;
    const bool strange = rest >= 0x7c00U;  // infinity and NaN
    // Exponents are biased by 15 there, by 127 here: the product also makes denormals normal.
    const float scaled = std::bit_cast<float>(rest << 13U) * 0x1p112F;
    const std::uint32_t normal = std::bit_cast<std::uint32_t>(scaled);
    return std::bit_cast<float>(sign | (strange ? (rest << 13U) | 0x7f800000U : normal));
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U, rest = bits & 0x7fffffffU;
    const float size = std::bit_cast<float>(rest);
    // Below 2^-14 results are multiples of 2^-24: adding 0.5 rounds to them.
    const std::uint32_t small = std::bit_cast<std::uint32_t>(size + 0.5F) - 0x3f000000U;
    const std::uint32_t normal = (rest - 0x38000000U + 0xfffU + ((rest >> 13U) & 1U)) >> 13U;
    std::uint32_t result = size < 0x1p-14F ? small : normal;
    result = size >= 65520.0F ? 0x7c00U : result;
    result = rest > 0x7f800000U ? 0x7e00U : result;
    return static_cast<std::uint16_t>(sign | result);
  }
};

template <class Number>
void widen_all(std::size_t n, const void* from, float* to) {
  const auto* numbers = static_cast<const typename Number::Stored*>(from);
  for (std::size_t i = 0; i < n; ++i) to[i] = Number::widen(numbers[i]);
}

template <class Number>
void narrow_all(std::size_t n, const float* from, void* to) {
  auto* numbers = static_cast<typename Number::Stored*>(to);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = Number::narrow(from[i]);
}

template <class Number>
void add_all(std::size_t n, const void* from, void* to) {
  const auto* terms = static_cast<const typename Number::Stored*>(from);
  auto* sums = static_cast<typename Number::Stored*>(to);
  for (std::size_t i = 0; i < n; ++i)
    sums[i] = Number::narrow(Number::widen(sums[i]) + Number::widen(terms[i]));
}

}  // namespace training::TRAINING_ISA
