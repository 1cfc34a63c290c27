// SPDX-License-Identifier: Apache-2.0
// Vectors of 64 bytes, of as many of the processor's own as that takes: the same lanes, and so the
// same bits, on every instruction set.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Every instruction set has its own copy of the kernels, in a namespace of its own.
#ifndef TRAINING_ISA
#define TRAINING_ISA baseline
#endif

namespace training::TRAINING_ISA {

#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif

/// One of the processor's vectors.
template <class Real>
struct VectorOf {
  typedef Real type __attribute__((vector_size(kVectorBytes)));
};
template <class Real>
using Vector = typename VectorOf<Real>::type;

template <class Real>
inline constexpr std::size_t kLanes = 64 / sizeof(Real);

template <class Real>
struct Lanes {
  static constexpr std::size_t kParts = 64 / kVectorBytes;
  Vector<Real> parts[kParts];

  /// Of every lane.
  template <class Operation>
  Lanes with(const Lanes& other, Operation operation) const {
    Lanes result;
    for (std::size_t i = 0; i < kParts; ++i) result.parts[i] = operation(parts[i], other.parts[i]);
    return result;
  }
  Lanes operator+(const Lanes& other) const {
    return with(other, [](const auto& a, const auto& b) { return a + b; });
  }
  Lanes operator-(const Lanes& other) const {
    return with(other, [](const auto& a, const auto& b) { return a - b; });
  }
  Lanes operator*(const Lanes& other) const {
    return with(other, [](const auto& a, const auto& b) { return a * b; });
  }
  static Lanes all(Real value) {
    Lanes result;
    for (auto& part : result.parts) part = value - Vector<Real>{};
    return result;
  }
};

template <class Real>
inline Lanes<Real> load(const Real* from) {
  Lanes<Real> lanes;
  for (auto& part : lanes.parts) {
    std::memcpy(&part, from, kVectorBytes);
    from += kVectorBytes / sizeof(Real);
  }
  return lanes;
}

template <class Real>
inline void store(Real* to, const Lanes<Real>& lanes) {
  for (const auto& part : lanes.parts) {
    std::memcpy(to, &part, kVectorBytes);
    to += kVectorBytes / sizeof(Real);
  }
}

/// The sum of the lanes, in pairs.
template <class Real>
inline Real sum_of(const Lanes<Real>& lanes) {
  Real values[kLanes<Real>];
  store(values, lanes);
  for (std::size_t width = kLanes<Real> / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) values[i] += values[i + width];
  return values[0];
}

/// The sum of term(i) for i < n: `of_lanes(i)` gives the terms of a whole vector, `of_one(i)` those
/// that are left.
template <class Real, class OfLanes, class OfOne>
inline Real sum_over(std::size_t n, OfLanes of_lanes, OfOne of_one) {
  Lanes<Real> sums{};
  std::size_t i = 0;
  for (; i + kLanes<Real> <= n; i += kLanes<Real>) sums = sums + of_lanes(i);
  Real sum = sum_of<Real>(sums);
  for (; i < n; ++i) sum += of_one(i);
  return sum;
}

/// e^x. For f32: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its Taylor polynomial of degree 7
/// (relative error below 2e-7); results below 2^-126 are 0. For f64 the library's function.
template <class Real>
inline Real exponential(Real x) {
  if constexpr (sizeof(Real) == 8) {
    return std::exp(x);
  } else {
    constexpr float kRound = 0x1.8p23F;  // adding it rounds to an integer
    const float clamped = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
    const float shifted = clamped * 0x1.715476p0F + kRound;
    const float n = shifted - kRound;
    const float r = (clamped - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
    float e = 1.0F / 5040;
    e = e * r + 1.0F / 720;
    e = e * r + 1.0F / 120;
    e = e * r + 1.0F / 24;
    e = e * r + 1.0F / 6;
    e = e * r + 0.5F;
    e = e * r + 1.0F;
    e = e * r + 1.0F;
    const auto power = (std::bit_cast<std::uint32_t>(shifted) << 23U) + 0x3f800000U;
    return x < -87.0F ? 0.0F : e * std::bit_cast<float>(power);
  }
}

template <class Real>
inline Real hyperbolic_tangent(Real x) {
  return 1 - 2 / (exponential<Real>(2 * x) + 1);
}

}  // namespace training::TRAINING_ISA
