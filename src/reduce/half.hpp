// SPDX-License-Identifier: Apache-2.0
// reduce/: the [op][dtype] kernels. This file: a register of 16-bit floats as two registers of f32.
//
// Which element lands in which lane does not matter, since `pack` undoes `unpack`. So most forms
// split each 32-bit lane into its two halves: shifts and masks, no shuffles, on any byte order.
// Only kernels.cpp includes this; see vector.hpp about the unnamed namespace.
#pragma once
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

/// Tags: the element is a std::uint16_t.
struct F16 {};
struct BF16 {};

template <size_t bytes>
struct Pair {
  Vector<float, bytes> low, high;
};

template <size_t bytes>
COLL_INLINE Pair<bytes> unpack(BF16, Raw<bytes> v) {
  using F = Vector<float, bytes>;
  return {as<F>(v << 16), as<F>(v & 0xffff0000u)};
}

/// To nearest, ties to even, in the upper half of each lane (the lower half is left dirty). In
/// integers: the instructions of AVX512-BF16 would flush denormals. NaN must be canonical.
template <size_t bytes>
COLL_INLINE Raw<bytes> round_bf16(Vector<float, bytes> x) {
  const auto bits = as<Raw<bytes>>(x);
  return bits + ((bits >> 16) & 1u) + 0x7fffu;
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(BF16, Pair<bytes> p) {
  return (round_bf16<bytes>(p.low) >> 16) | (round_bf16<bytes>(p.high) & 0xffff0000u);
}

#if defined(__F16C__)
// The conversions round to nearest even whatever MXCSR says, and keep denormals.
template <size_t bytes>
COLL_INLINE Pair<bytes> unpack(F16, Raw<bytes> v) {
  using F = Vector<float, bytes>;
  if constexpr (bytes == 16) {
    const auto x = as<__m128i>(v);
    return {as<F>(_mm_cvtph_ps(x)), as<F>(_mm_cvtph_ps(_mm_unpackhi_epi64(x, x)))};
  }
  if constexpr (bytes == 32) {
    const auto x = as<__m256i>(v);
    return {as<F>(_mm256_cvtph_ps(_mm256_castsi256_si128(x))),
            as<F>(_mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)))};
  }
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) {
    const auto x = as<__m512i>(v);
    return {as<F>(_mm512_cvtph_ps(_mm512_castsi512_si256(x))),
            as<F>(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1)))};
  }
#endif
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  using V = Raw<bytes>;
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (bytes == 16)
    return as<V>(_mm_unpacklo_epi64(_mm_cvtps_ph(as<__m128>(p.low), kNearest),
                                    _mm_cvtps_ph(as<__m128>(p.high), kNearest)));
  if constexpr (bytes == 32)
    return as<V>(_mm256_set_m128i(_mm256_cvtps_ph(as<__m256>(p.high), kNearest),
                                  _mm256_cvtps_ph(as<__m256>(p.low), kNearest)));
#if defined(__AVX512BW__)
  if constexpr (bytes == 64)
    return as<V>(
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(as<__m512>(p.low), kNearest)),
                           _mm512_cvtps_ph(as<__m512>(p.high), kNearest), 1));
#endif
}

#elif defined(__aarch64__) && defined(__ARM_NEON)
template <size_t bytes>
COLL_INLINE Pair<bytes> unpack(F16, Raw<bytes> v) {
  const auto x = as<float16x8_t>(v);
  return {vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  return as<Raw<bytes>>(vcvt_high_f16_f32(vcvt_f16_f32(p.low), p.high));
}

#else
// In integers, with the two additions of floats that round and shift denormals for us.
// From the FP16 conversions of F. Giesen ("float->half variants", public domain).
template <size_t bytes>
COLL_INLINE Vector<float, bytes> widen_f16(Raw<bytes> h) {  // one half per 32-bit lane
  using F = Vector<float, bytes>;
  using V = Raw<bytes>;
  constexpr std::uint32_t kRebias = (127u - 15u) << 23, kSmallest = 113u << 23;  // 2^-14
  const V sign = (h & 0x8000u) << 16;
  const V magnitude = (h & 0x7fffu) << 13;
  const V normal = magnitude + kRebias;
  const V denormal = as<V>(as<F>(magnitude + kSmallest) - as<F>(V{} + kSmallest));
  const V special = magnitude | 0x7f800000u;
  const V value = magnitude < (V{} + (1u << 23))     ? denormal
                  : magnitude >= (V{} + (31u << 23)) ? special
                                                     : normal;
  return as<F>(value | sign);
}

template <size_t bytes>
COLL_INLINE Raw<bytes> narrow_f16(Vector<float, bytes> x) {  // into the lower half of each lane
  using F = Vector<float, bytes>;
  using V = Raw<bytes>;
  constexpr std::uint32_t kHalf = 126u << 23;  // 0.5f: its last place is f16's least denormal
  const V sign = (as<V>(x) >> 16) & 0x8000u;
  const V magnitude = as<V>(x) & 0x7fffffffu;
  const V rebiased = magnitude - ((127u - 15u) << 23);
  const V normal = (rebiased + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const V denormal = as<V>(as<F>(magnitude) + as<F>(V{} + kHalf)) - kHalf;
  const V special = magnitude > (V{} + (255u << 23)) ? V{} + 0x7e00u : V{} + 0x7c00u;
  const V value = magnitude < (V{} + (113u << 23))    ? denormal
                  : magnitude >= (V{} + (143u << 23)) ? special
                                                      : normal;
  return value | sign;
}

template <size_t bytes>
COLL_INLINE Pair<bytes> unpack(F16, Raw<bytes> v) {
  return {widen_f16<bytes>(v & 0xffffu), widen_f16<bytes>(v >> 16)};
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  return narrow_f16<bytes>(p.low) | (narrow_f16<bytes>(p.high) << 16);
}
#endif

}  // namespace
}  // namespace coll::reduce
