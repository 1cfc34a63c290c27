// SPDX-License-Identifier: Apache-2.0
// reduce/: the [op][dtype] kernels. This file: a register of 8-bit floats as two of f16.
//
// An 8-bit float is an f16 with fewer digits. E5M2 is one as it stands: the upper byte. E4M3 put at
// the place of f16's exponent is the number divided by 2^8, down to the denormals, so it needs one
// shift and no exponent arithmetic; sums and averages keep the scale, a product needs it once more.
//
// Rounding to 8 bits: f32 to f16, then f16 to fewer digits in integers. For the sum or product of
// two 8-bit floats that gives what one rounding gives, since f16 has at least twice their digits
// and two more (S. Figueroa, When is double rounding innocuous?, 1995; the tests try all pairs). It
// does not hold for a quotient, which is rounded to the final digits in f32 before.
//
// Only kernels.cpp includes this; see vector.hpp about the unnamed namespace.
#pragma once
#include "reduce/half.hpp"

namespace coll::reduce {
namespace {

/// As F16; kDigits after the point; kScale is what an f16 of the same bits was divided by.
struct E4M3 {
  using Bits = std::int8_t;
  static constexpr Bits kMost = 0x7e, kNan = 0x7f;  // 448
  static constexpr bool kInfinities = false;
  static constexpr int kDigits = 3;
  static constexpr float kScale = 256.0f;
};
struct E5M2 {
  using Bits = std::int8_t;
  static constexpr Bits kMost = 0x7c, kNan = 0x7e;
  static constexpr bool kInfinities = true;
  static constexpr int kDigits = 2;
  static constexpr float kScale = 1.0f;
};

template <size_t bytes>
using Shorts = Vector<std::uint16_t, bytes>;

/// The f16 of the even and of the odd bytes. The halves of a 16-bit lane are told apart by value,
/// not by address: on any byte order `join` puts them back.
template <size_t bytes>
struct Halves {
  Raw<bytes> even, odd;
};

template <size_t bytes>
COLL_INLINE Halves<bytes> split(E5M2, Raw<bytes> v) {
  return {as<Raw<bytes>>(as<Shorts<bytes>>(v) << 8), v & 0xff00ff00u};
}

template <size_t bytes>
COLL_INLINE Halves<bytes> split(E4M3, Raw<bytes> v) {
  using I = Vector<std::int16_t, bytes>;
  const I even = as<I>(as<Shorts<bytes>>(v) << 8) >> 1, odd = as<I>(v) >> 1;
  return {as<Raw<bytes>>(even) & 0xbf80bf80u, as<Raw<bytes>>(odd) & 0xbf80bf80u};  // one sign only
}

/// An f16 to nearest, ties to even, in the bits of `Format`; those below are left dirty. A NaN
/// comes from an 8-bit float or from the CPU, so its lower bits are zero and nothing carries.
template <class Format, size_t bytes>
COLL_INLINE Shorts<bytes> round_half(Raw<bytes> half) {
  constexpr int kCut = 10 - Format::kDigits;
  constexpr auto kBelowHalf = static_cast<std::uint16_t>((1 << (kCut - 1)) - 1);
  const auto h = as<Shorts<bytes>>(half);
  return h + ((h >> kCut) & std::uint16_t{1}) + kBelowHalf;
}

template <size_t bytes>
COLL_INLINE Raw<bytes> join(E5M2, Halves<bytes> h) {
  const auto even = round_half<E5M2, bytes>(h.even), odd = round_half<E5M2, bytes>(h.odd);
  return as<Raw<bytes>>(even >> 8) | (as<Raw<bytes>>(odd) & 0xff00ff00u);
}

/// Saturates: what is beyond the largest number becomes it.
template <size_t bytes>
COLL_INLINE Raw<bytes> join(E4M3, Halves<bytes> h) {
  using I = Vector<std::int16_t, bytes>;
  const auto magnitude = [](Raw<bytes> half) __attribute__((always_inline)) {
    const I m = as<I>(round_half<E4M3, bytes>(half)) & std::int16_t{0x7fff};
    return as<Shorts<bytes>>(lesser<bytes>(m, I{} + std::int16_t{E4M3::kMost << 7}));
  };
  const auto even = as<Raw<bytes>>(magnitude(h.even) >> 7);
  const auto odd = as<Raw<bytes>>(magnitude(h.odd) << 1) & 0x7f007f00u;
  const auto sign = as<Raw<bytes>>(as<Shorts<bytes>>(h.even & 0x80008000u) >> 8);
  return even | odd | sign | (h.odd & 0x80008000u);
}

/// x to the digits of `Format`, to nearest, ties to even: added to a number so large that its last
/// place is where x's digits end, and taken off again. Denormals end where the least normal number
/// (of f16, scaled for E4M3: the same 2^-14) does.
template <size_t bytes, class Format>
COLL_INLINE Vector<float, bytes> round(Format, Vector<float, bytes> x) {
  using F = Vector<float, bytes>;
  using I = Vector<std::int32_t, bytes>;
  constexpr int kLeastNormal = 113 << 23, kUp = (23 - Format::kDigits) << 23,
                kOneAndAHalf = 1 << 22;
  const I exponent = as<I>(x) & 0x7f800000, least = I{} + kLeastNormal;
  const auto grain = as<Raw<bytes>>(exponent > least ? exponent : least);
  // Wraps for infinities and NaN, which stay what they are whatever is added.
  const F large = as<F>(grain + static_cast<std::uint32_t>(kUp + kOneAndAHalf));
  const I sign = as<I>(x) & static_cast<std::int32_t>(0x80000000u);
  return as<F>(as<I>((x + large) - large) | sign);  // of a zero
}

}  // namespace
}  // namespace coll::reduce
