// SPDX-License-Identifier: Apache-2.0
// A register of 16-bit floats as two registers of f32.
//
// Which element lands in which lane does not matter, since `pack` undoes `read`. So most forms
// split each 32-bit lane into its two halves: shifts and masks, no shuffles, on any byte order.
// Only kernels.cpp includes this; see vector.hpp about the unnamed namespace.
#pragma once
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

/// The integer that an element is; the bits of its largest magnitude, infinity, and of its one NaN;
/// kDigits after the point.
struct F16 {
  using Bits = std::int16_t;
  static constexpr Bits kMost = 0x7c00, kNan = 0x7e00;
  static constexpr int kDigits = 10;
};
struct BF16 {
  using Bits = std::int16_t;
  static constexpr Bits kMost = 0x7f80, kNan = 0x7fc0;
  static constexpr int kDigits = 7;
};

/// Does the CPU add and multiply f16?
#if defined(__AVX512FP16__)
constexpr bool kNativeF16 = true;
__extension__ typedef _Float16 NativeF16;
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
constexpr bool kNativeF16 = true;
#if defined(__clang__)
typedef _Float16 NativeF16;  // its float16_t computes in f32
#else
using NativeF16 = float16_t;
#endif
#else
constexpr bool kNativeF16 = false;
using NativeF16 = float;  // not used
#endif

/// Does it at least widen and narrow f16 for less than shifts and masks cost?
#if defined(__aarch64__) && defined(__ARM_NEON)
constexpr bool kCheapF16 = true;
#else
constexpr bool kCheapF16 = kNativeF16;
#endif

template <size_t bytes>
struct Pair {
  Vector<float, bytes> low, high;
};

/// Is there a NaN in any of the four? Asked for two registers of elements at once, since a branch
/// costs less than to replace what hardly ever is there.
#if defined(__x86_64__)
template <class Format>
constexpr bool kCheapNanBranch = true;
COLL_INLINE bool any_nan(Pair<kWidth> x, Pair<kWidth> y) {
#if defined(__AVX512BW__)
  const auto none = _mm512_cmp_ps_mask(as<__m512>(x.low), as<__m512>(x.high), _CMP_ORD_Q);
  return _mm512_mask_cmp_ps_mask(none, as<__m512>(y.low), as<__m512>(y.high), _CMP_ORD_Q) != 0xffff;
#elif defined(__AVX2__)
  const auto in_x = _mm256_cmp_ps(as<__m256>(x.low), as<__m256>(x.high), _CMP_UNORD_Q);
  const auto in_y = _mm256_cmp_ps(as<__m256>(y.low), as<__m256>(y.high), _CMP_UNORD_Q);
  return _mm256_movemask_ps(_mm256_or_ps(in_x, in_y)) != 0;
#else
  const auto in_x = _mm_cmpunord_ps(as<__m128>(x.low), as<__m128>(x.high));
  const auto in_y = _mm_cmpunord_ps(as<__m128>(y.low), as<__m128>(y.high));
  return _mm_movemask_ps(_mm_or_ps(in_x, in_y)) != 0;
#endif
}
#else
template <class Format>
constexpr bool kCheapNanBranch = false;
COLL_INLINE bool any_nan(Pair<kWidth>, Pair<kWidth>) {
  return false;  // not asked
}
#endif

/// Reads `step` bytes of elements.
template <size_t step>
COLL_INLINE auto read(BF16, const std::byte* from) {
  using F = Vector<float, register_of(step)>;
  const auto v = load<step>(from);
  return Pair<register_of(step)>{as<F>(v << 16), as<F>(v & 0xffff0000u)};
}

#if defined(__AVX512BW__)
/// For a shuffle that swaps the halves of each 32-bit lane.
COLL_INLINE __m512i swap_halves() {
  return _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302);
}
#endif

/// The upper halves of all lanes, those of `high` in the upper places.
template <size_t bytes>
COLL_INLINE Raw<bytes> upper_halves(Raw<bytes> low, Raw<bytes> high) {
#if defined(__AVX512BW__)
  if constexpr (bytes == 64)
    return as<Raw<64>>(_mm512_mask_shuffle_epi8(as<__m512i>(high), 0x3333333333333333u,
                                                as<__m512i>(low), swap_halves()));
#endif
#if defined(__AVX2__)
  if constexpr (bytes == 32)
    return as<Raw<32>>(_mm256_blend_epi16(as<__m256i>(low >> 16), as<__m256i>(high), 0xaa));
#endif
  return (low >> 16) | (high & 0xffff0000u);
}

/// The same of the lower halves.
template <size_t bytes>
COLL_INLINE Raw<bytes> lower_halves(Raw<bytes> low, Raw<bytes> high) {
#if defined(__AVX512BW__)
  if constexpr (bytes == 64)
    return as<Raw<64>>(_mm512_mask_shuffle_epi8(as<__m512i>(low), 0xccccccccccccccccu,
                                                as<__m512i>(high), swap_halves()));
#endif
#if defined(__AVX2__)
  if constexpr (bytes == 32)
    return as<Raw<32>>(_mm256_blend_epi16(as<__m256i>(low), as<__m256i>(high << 16), 0xaa));
#endif
  return (low & 0x0000ffffu) | (high << 16);
}

/// To nearest, ties to even. In integers: the instructions of AVX512-BF16 would flush denormals.
/// What is cut off rounds up if it is more than 0x8000, or equal to it below an odd number. A NaN
/// stays one: it comes from a bf16 operand or from the CPU, so nothing but zeros is cut off.
template <size_t bytes>
COLL_INLINE Raw<bytes> pack(BF16, Pair<bytes> p) {
  using S = Vector<std::uint16_t, bytes>;
  const auto low = as<Raw<bytes>>(p.low), high = as<Raw<bytes>>(p.high);
  const auto kept = as<S>(upper_halves<bytes>(low, high));
  const auto rest = as<S>(lower_halves<bytes>(low, high));
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) {
    const auto x = as<__m512i>(kept), odd = as<__m512i>(rest | (kept & std::uint16_t{1}));
    const auto up = _mm512_cmpgt_epu16_mask(odd, _mm512_set1_epi16(-0x8000));
    return as<Raw<64>>(_mm512_mask_sub_epi16(x, up, x, _mm512_set1_epi16(-1)));
  }
#endif
  const S even = ~kept & std::uint16_t{1};
  return as<Raw<bytes>>(S{kept + (subtract_to_zero<bytes>(rest, even) >> 15)});
}

/// Stores `kWidth` bytes of elements.
template <class Format>
COLL_INLINE void store_packed(Format, std::byte* to, Pair<kWidth> p) {
  store<kWidth>(to, pack<kWidth>(Format{}, p));
}

#if defined(__F16C__)
// The conversions round to nearest even whatever MXCSR says, and keep denormals. Each half is
// loaded by itself: widening is free of shuffles only from memory. The forms with a mask are there
// because g++ 12 warns about those that leave something undefined.
template <size_t bytes>
COLL_INLINE Vector<float, bytes> widen_f16(const std::byte* from) {  // bytes / 2 bytes
  const auto half = load<bytes / 2>(from);
#if defined(__AVX512BW__)
  if constexpr (bytes == 64)
    return as<Vector<float, 64>>(_mm512_maskz_cvtph_ps(0xffff, as<__m256i>(half)));
#endif
  if constexpr (bytes == 32) return as<Vector<float, 32>>(_mm256_cvtph_ps(as<__m128i>(half)));
  if constexpr (bytes == 16) return as<Vector<float, 16>>(_mm_cvtph_ps(as<__m128i>(half)));
}

template <size_t step>
COLL_INLINE auto read(F16, const std::byte* from) {
  if constexpr (step < 16)
    return Pair<16>{as<Vector<float, 16>>(_mm_cvtph_ps(as<__m128i>(load<step>(from)))), {}};
  else
    return Pair<step>{widen_f16<step>(from), widen_f16<step>(from + step / 2)};
}

/// The same from a register, where a half costs a shuffle.
template <size_t bytes>
COLL_INLINE Pair<bytes> widen(F16, Raw<bytes> v) {
  using F = Vector<float, bytes>;
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) {
    const auto x = as<Vector<long long, 64>>(v);
    const auto low = as<__m256i>(__builtin_shufflevector(x, x, 0, 1, 2, 3));
    const auto high = as<__m256i>(__builtin_shufflevector(x, x, 4, 5, 6, 7));
    return {as<F>(_mm512_maskz_cvtph_ps(0xffff, low)), as<F>(_mm512_maskz_cvtph_ps(0xffff, high))};
  }
#endif
  if constexpr (bytes == 32)
    return {as<F>(_mm256_cvtph_ps(_mm256_castsi256_si128(as<__m256i>(v)))),
            as<F>(_mm256_cvtph_ps(_mm256_extracti128_si256(as<__m256i>(v), 1)))};
  if constexpr (bytes == 16) {
    const auto x = as<__m128i>(v);
    return {as<F>(_mm_cvtph_ps(x)), as<F>(_mm_cvtph_ps(_mm_unpackhi_epi64(x, x)))};
  }
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  using V = Raw<bytes>;
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) {
    const auto low = _mm512_maskz_cvtps_ph(0xffff, as<__m512>(p.low), kNearest);
    const auto high = _mm512_maskz_cvtps_ph(0xffff, as<__m512>(p.high), kNearest);
    return as<V>(_mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1));
  }
#endif
  if constexpr (bytes == 32)
    return as<V>(_mm256_set_m128i(_mm256_cvtps_ph(as<__m256>(p.high), kNearest),
                                  _mm256_cvtps_ph(as<__m256>(p.low), kNearest)));
  if constexpr (bytes == 16)
    return as<V>(_mm_unpacklo_epi64(_mm_cvtps_ph(as<__m128>(p.low), kNearest),
                                    _mm_cvtps_ph(as<__m128>(p.high), kNearest)));
}

/// Each half by itself: narrowing is free of shuffles only into memory.
COLL_INLINE void store_packed(F16, std::byte* to, Pair<kWidth> p) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  constexpr size_t kHalf = kWidth / 2;
#if defined(__AVX512BW__)
  store<kHalf>(to, _mm512_maskz_cvtps_ph(0xffff, as<__m512>(p.low), kNearest));
  store<kHalf>(to + kHalf, _mm512_maskz_cvtps_ph(0xffff, as<__m512>(p.high), kNearest));
#elif defined(__AVX2__)
  store<kHalf>(to, _mm256_cvtps_ph(as<__m256>(p.low), kNearest));
  store<kHalf>(to + kHalf, _mm256_cvtps_ph(as<__m256>(p.high), kNearest));
#else
  store<kHalf>(to, _mm_cvtps_ph(as<__m128>(p.low), kNearest));
  store<kHalf>(to + kHalf, _mm_cvtps_ph(as<__m128>(p.high), kNearest));
#endif
}

#elif defined(__aarch64__) && defined(__ARM_NEON)
template <size_t bytes>
COLL_INLINE Pair<bytes> widen(F16, Raw<bytes> v) {
  const auto x = as<float16x8_t>(v);
  return {vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

template <size_t step>
COLL_INLINE auto read(F16, const std::byte* from) {
  return widen<register_of(step)>(F16{}, load<step>(from));
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  return as<Raw<bytes>>(vcvt_high_f16_f32(vcvt_f16_f32(p.low), p.high));
}

#else
#if defined(__x86_64__)
template <>
constexpr bool kCheapNanBranch<F16> = false;  // long enough without
#endif

// In integers, with two additions of floats that round and shift denormals for us; after F.
// Giesen's public-domain float->half conversions. Comparisons are signed, which SSE2 has: no
// magnitude reaches the sign.
template <size_t bytes>
using Ints = Vector<std::int32_t, bytes>;

template <size_t bytes>
COLL_INLINE Vector<float, bytes> widen_f16(Ints<bytes> h) {  // one half per 32-bit lane
  using F = Vector<float, bytes>;
  using I = Ints<bytes>;
  constexpr int kRebias = (127 - 15) << 23, kLeastNormal = 113 << 23;  // 2^-14
  const I magnitude = (h & 0x7fff) << 13;
  const I denormal = as<I>(as<F>(magnitude + kLeastNormal) - as<F>(I{} + kLeastNormal));
  const I rebias = I{} + kRebias;
  const I normal = magnitude + rebias + (magnitude >= (I{} + (31 << 23)) ? rebias : I{});
  return as<F>((magnitude < (I{} + (1 << 23)) ? denormal : normal) | ((h & 0x8000) << 16));
}

template <size_t bytes>
COLL_INLINE Ints<bytes> narrow_f16(Vector<float, bytes> x) {  // into the lower half of each lane
  using F = Vector<float, bytes>;
  using I = Ints<bytes>;
  constexpr int kHalf = 126 << 23;  // 0.5f: its last place is f16's least denormal
  const I magnitude = as<I>(x) & 0x7fffffff;
  const I normal = (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const I denormal = as<I>(as<F>(magnitude) + as<F>(I{} + kHalf)) - kHalf;
  const I special = magnitude > (I{} + (255 << 23)) ? I{} + F16::kNan : I{} + F16::kMost;
  const I finite = magnitude < (I{} + (113 << 23)) ? denormal : normal;
  return (magnitude >= (I{} + (143 << 23)) ? special : finite) | ((as<I>(x) >> 16) & 0x8000);
}

template <size_t bytes>
COLL_INLINE Pair<bytes> widen(F16, Raw<bytes> v) {
  return {widen_f16<bytes>(as<Ints<bytes>>(v)), widen_f16<bytes>(as<Ints<bytes>>(v >> 16))};
}

template <size_t step>
COLL_INLINE auto read(F16, const std::byte* from) {
  return widen<register_of(step)>(F16{}, load<step>(from));
}

template <size_t bytes>
COLL_INLINE Raw<bytes> pack(F16, Pair<bytes> p) {
  return as<Raw<bytes>>(narrow_f16<bytes>(p.low) | (narrow_f16<bytes>(p.high) << 16));
}
#endif

}  // namespace
}  // namespace coll::reduce
