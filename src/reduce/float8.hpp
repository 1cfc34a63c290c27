// SPDX-License-Identifier: Apache-2.0
// A register of 8-bit floats as two of f16.
//
// An 8-bit float is an f16 with fewer digits. E5M2 is one as it stands: the upper byte. E4M3 put at
// the place of f16's exponent is the number divided by 2^8, down to the denormals, so it needs one
// shift and no exponent arithmetic; sums and averages keep the scale, a product needs it once more.
//
// Where f16 is dear, a sum of E4M3 does without: f32 takes it in the same way, divided by 2^120,
// and holds every sum exactly.
//
// Rounding to 8 bits: to f16 (by the arithmetic itself where the CPU has that of f16), then to
// fewer digits in integers. For the sum or product of two 8-bit floats that gives what one rounding
// gives, since f16 has at least twice their digits and two more (S. Figueroa, When is double
// rounding innocuous?, 1995; the tests try all pairs). It does not hold for a quotient, which is
// rounded to the final digits in f32 before.
//
// Only kernels.cpp includes this; see vector.hpp about the unnamed namespace.
#pragma once
#include "reduce/half.hpp"

namespace coll::reduce {
namespace {

/// As F16; kScale is what an f16 of the same bits was divided by.
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

/// To nearest, ties to even, in the upper byte of each lane; the lower byte is left dirty. That of
/// a NaN is zero, since it comes from an 8-bit float or from the CPU, so nothing carries.
template <size_t bytes>
COLL_INLINE Shorts<bytes> round_to_byte(Shorts<bytes> x) {
  return x - ((~(x >> 8) & std::uint16_t{1}) | std::uint16_t{0xff80});  // + 0x7f or 0x80
}

/// The upper bytes of two registers, those of `even` in the even places.
template <size_t bytes>
COLL_INLINE Raw<bytes> upper_bytes(Shorts<bytes> even, Shorts<bytes> odd) {
  return as<Raw<bytes>>(even >> 8) | (as<Raw<bytes>>(odd) & 0xff00ff00u);
}

template <size_t bytes>
COLL_INLINE Raw<bytes> join(E5M2, Halves<bytes> h) {
  return upper_bytes<bytes>(round_to_byte<bytes>(as<Shorts<bytes>>(h.even)),
                            round_to_byte<bytes>(as<Shorts<bytes>>(h.odd)));
}

/// A magnitude with an exponent of one more bit; what is beyond the largest number becomes it.
template <size_t bytes>
COLL_INLINE Raw<bytes> saturate(E4M3, Raw<bytes> magnitude) {
  using U = Vector<std::uint8_t, bytes>;
  return as<Raw<bytes>>(lesser<bytes>(as<U>(magnitude), U{} + std::uint8_t{E4M3::kMost}));
}

template <size_t bytes>
COLL_INLINE Raw<bytes> join(E4M3, Halves<bytes> h) {
  using S = Shorts<bytes>;
  const auto even = as<S>(h.even), odd = as<S>(h.odd);
  const auto magnitude =
      upper_bytes<bytes>(round_to_byte<bytes>(S{even + even}), round_to_byte<bytes>(S{odd + odd}));
  return select<bytes>(Raw<bytes>{} + 0x80808080u, upper_bytes<bytes>(even, odd),
                       saturate<bytes>(E4M3{}, magnitude));
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

// ---- sums of E4M3 without f16 ----

/// The f32 of the upper byte of each 16-bit lane: the number divided by 2^120, down to the
/// denormals.
template <size_t bytes>
COLL_INLINE Pair<bytes> widen_upper(E4M3, Raw<bytes> v) {
  using F = Vector<float, bytes>;
  constexpr std::uint32_t kFields = 0x87f00000u;
  const auto w = as<Raw<bytes>>(as<Vector<std::int16_t, bytes>>(v) >> 4);
  return {as<F>((w << 16) & kFields), as<F>(w & kFields)};
}

/// |a + b| of the upper bytes, in the upper bytes, with an exponent of one more bit. f32 adds
/// without rounding; five of the eight bits kept below the digits tell ties from all else, since
/// whatever reaches below them is less than a quarter of the last digit.
template <size_t bytes>
COLL_INLINE Shorts<bytes> add_upper(E4M3, Raw<bytes> a, Raw<bytes> b) {
  using R = Raw<bytes>;
  const auto x = widen_upper<bytes>(E4M3{}, a), y = widen_upper<bytes>(E4M3{}, b);
  const R low = as<R>(x.low + y.low) >> 12, high = as<R>(x.high + y.high) << 4;
  return round_to_byte<bytes>(as<Shorts<bytes>>(select<bytes>(R{} + 0xffff0000u, high, low)));
}

/// |a + b|; of a NaN anything.
template <size_t bytes>
COLL_INLINE Raw<bytes> add(E4M3, Raw<bytes> a, Raw<bytes> b) {
  const auto even = [](Raw<bytes> v) __attribute__((always_inline)) {
    return as<Raw<bytes>>(as<Shorts<bytes>>(v) << 8);
  };
  return saturate<bytes>(E4M3{}, upper_bytes<bytes>(add_upper<bytes>(E4M3{}, even(a), even(b)),
                                                    add_upper<bytes>(E4M3{}, a, b)));
}

}  // namespace
}  // namespace coll::reduce
