// SPDX-License-Identifier: Apache-2.0
// Formats of floats on the device, as integers, and how those of 8 and 16 bits become f32 and back.
//
// The conversions are made of integer operations and exact products, so the host and every device
// get the same bits from the same source; the tests run it on the host. The device rounds f16 by
// its own instructions, which do what IEEE 754 says.
#pragma once
#include <cstdint>
#if defined(__CUDA_ARCH__)
#include <cuda_fp16.h>
#endif

namespace coll::reduce::device {

/// The integer that an element is, its digits after the point and the bias of its exponent; the
/// bits of its largest magnitude, which is infinity where there are infinities, and of its NaN.
struct F8E4M3 {
  using Bits = std::uint8_t;
  static constexpr int kDigits = 3, kBias = 7;
  static constexpr Bits kMost = 0x7e, kNan = 0x7f;  // 448: it saturates
  static constexpr bool kInfinities = false;
};
struct F8E5M2 {
  using Bits = std::uint8_t;
  static constexpr int kDigits = 2, kBias = 15;
  static constexpr Bits kMost = 0x7c, kNan = 0x7e;
  static constexpr bool kInfinities = true;
};
struct Float16 {
  using Bits = std::uint16_t;
  static constexpr int kDigits = 10, kBias = 15;
  static constexpr Bits kMost = 0x7c00, kNan = 0x7e00;
  static constexpr bool kInfinities = true;
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static constexpr int kDigits = 7, kBias = 127;
  static constexpr Bits kMost = 0x7f80, kNan = 0x7fc0;
  static constexpr bool kInfinities = true;
};
struct Float32 {
  using Bits = std::uint32_t;
  using Value = float;
  static constexpr int kDigits = 23;
  static constexpr Bits kMost = 0x7f800000u, kNan = 0x7fc00000u;
};
struct Float64 {
  using Bits = std::uint64_t;
  using Value = double;
  static constexpr int kDigits = 52;
  static constexpr Bits kMost = 0x7ff0000000000000u, kNan = 0x7ff8000000000000u;
};

template <class Format>
inline constexpr int kBitsOf = 8 * static_cast<int>(sizeof(typename Format::Bits));
/// All bits but the sign.
template <class Format>
inline constexpr auto kMagnitude =
    static_cast<typename Format::Bits>(static_cast<typename Format::Bits>(-1) >> 1);

__device__ inline float as_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
__device__ inline std::uint32_t bits_of_float(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}

/// The same number; of a NaN a NaN.
template <class Format>
__device__ float widen(Format, typename Format::Bits bits) {
  const std::uint32_t magnitude = bits & kMagnitude<Format>;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits ^ magnitude) << (32 - kBitsOf<Format>);
  if constexpr (Format::kBias == 127) {
    return as_float(sign | magnitude << (23 - Format::kDigits));
  } else {
    // With an exponent that is too small by a constant, denormals included: the product is exact.
    constexpr auto kUp = static_cast<std::uint32_t>(254 - Format::kBias) << 23;
    const float scaled = as_float(magnitude << (23 - Format::kDigits)) * as_float(kUp);
    const bool special =
        Format::kInfinities ? magnitude >= Format::kMost : magnitude > Format::kMost;
    const std::uint32_t ones = special ? Float32::kMost : 0;
    return as_float(sign | ones | bits_of_float(scaled));
  }
}

/// To the nearest number, ties to even; beyond the largest: kMost. There is one NaN.
template <class Format>
__device__ typename Format::Bits narrow(Format, float x) {
  constexpr int kDropped = 23 - Format::kDigits;
  const std::uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffffu;
  std::uint32_t rounded =
      (magnitude + ((magnitude >> kDropped) & 1u) + ((1u << (kDropped - 1)) - 1u)) >> kDropped;
  if constexpr (Format::kBias != 127) {
    constexpr auto kRebias = static_cast<std::uint32_t>(127 - Format::kBias);
    // Added to a number whose last place is the least denormal, f32 itself rounds a denormal.
    constexpr std::uint32_t kGrain = (kRebias + 1 + kDropped) << 23;
    const bool denormal = magnitude < (kRebias + 1) << 23;
    rounded = denormal ? bits_of_float(as_float(magnitude) + as_float(kGrain)) - kGrain
                       : rounded - (kRebias << Format::kDigits);
    rounded = rounded > Format::kMost ? std::uint32_t{Format::kMost} : rounded;
  }
  const std::uint32_t sign = (bits ^ magnitude) >> (32 - kBitsOf<Format>);
  return static_cast<typename Format::Bits>(magnitude > Float32::kMost ? std::uint32_t{Format::kNan}
                                                                       : sign | rounded);
}

#if defined(__CUDA_ARCH__)
__device__ inline float widen(Float16, std::uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
__device__ inline std::uint16_t narrow(Float16, float x) {
  const std::uint16_t bits = __half_as_ushort(__float2half_rn(x));
  return (bits & 0x7fff) > Float16::kMost ? Float16::kNan : bits;
}
#endif
/// E5M2 is the upper byte of an f16.
__device__ inline float widen(F8E5M2, std::uint8_t bits) {
  return widen(Float16{}, static_cast<std::uint16_t>(bits << 8));
}

}  // namespace coll::reduce::device
