// SPDX-License-Identifier: Apache-2.0
// Vectors of any lane type, their loads and stores.
//
// Only kernels.cpp includes this. Everything is in an unnamed namespace: the linker must never
// merge a function compiled for one instruction set with the same one of another. For that reason
// no std:: template is called here either.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define COLL_INLINE [[gnu::always_inline]] inline

namespace coll::reduce {
namespace {

using std::size_t;

/// Bytes of the widest register.
#if defined(__AVX512BW__)
constexpr size_t kWidth = 64;
#elif defined(__AVX2__)
constexpr size_t kWidth = 32;
#else
constexpr size_t kWidth = 16;
#endif

template <class T, size_t bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};
/// `bytes` bytes of lanes of type T: one register. Arithmetic and comparisons work lane by lane.
template <class T, size_t bytes>
using Vector = typename VectorOf<T, bytes>::type;

/// What is loaded and stored: a register whose lanes have no type yet.
template <size_t bytes>
using Raw = Vector<std::uint32_t, bytes>;

/// The register that holds `bytes` bytes.
constexpr size_t register_of(size_t bytes) {
  return bytes < 16 ? 16 : bytes;
}

template <class To, class From>
COLL_INLINE To as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

/// The integer of `bytes` bytes, for what is less than a register.
template <size_t bytes>
using Word = std::conditional_t<
    bytes == 8, std::uint64_t,
    std::conditional_t<bytes == 4, std::uint32_t,
                       std::conditional_t<bytes == 2, std::uint16_t, std::uint8_t>>>;

/// Loads `bytes` bytes; fewer than a register are padded with zeros.
template <size_t bytes>
COLL_INLINE auto load(const std::byte* from) {
  if constexpr (bytes < 16) {  // through a word: a register written in parts is slow to read whole
    Word<bytes> word;
    __builtin_memcpy(&word, from, bytes);
    return as<Raw<16>>(Vector<Word<bytes>, 16>{word});
  } else {
    Raw<bytes> value;
    __builtin_memcpy(&value, from, bytes);
    return value;
  }
}

/// Stores the first `bytes` bytes.
template <size_t bytes, class V>
COLL_INLINE void store(std::byte* to, V value) {
  static_assert(bytes <= sizeof(V));
  if constexpr (bytes < 16) {
    const Word<bytes> word = as<Vector<Word<bytes>, 16>>(value)[0];
    __builtin_memcpy(to, &word, bytes);
  } else {
    __builtin_memcpy(to, &value, bytes);
  }
}

/// The lesser of each two lanes: g++ 12 misses the instruction where one side is a constant.
template <size_t bytes>
COLL_INLINE auto lesser(Vector<std::uint8_t, bytes> a, Vector<std::uint8_t, bytes> b) {
  using V = Vector<std::uint8_t, bytes>;
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) return as<V>(_mm512_min_epu8(as<__m512i>(a), as<__m512i>(b)));
#endif
#if defined(__AVX2__)
  if constexpr (bytes == 32) return as<V>(_mm256_min_epu8(as<__m256i>(a), as<__m256i>(b)));
#endif
#if defined(__x86_64__)
  if constexpr (bytes == 16) return as<V>(_mm_min_epu8(as<__m128i>(a), as<__m128i>(b)));
#else
  return V{a < b ? a : b};
#endif
}

/// a - b, or 0 where b is more: one instruction that g++ 12 misses too.
template <size_t bytes>
COLL_INLINE auto subtract_to_zero(Vector<std::uint16_t, bytes> a, Vector<std::uint16_t, bytes> b) {
  using V = Vector<std::uint16_t, bytes>;
#if defined(__AVX512BW__)
  if constexpr (bytes == 64) return as<V>(_mm512_subs_epu16(as<__m512i>(a), as<__m512i>(b)));
#endif
#if defined(__AVX2__)
  if constexpr (bytes == 32) return as<V>(_mm256_subs_epu16(as<__m256i>(a), as<__m256i>(b)));
#endif
#if defined(__x86_64__)
  if constexpr (bytes == 16) return as<V>(_mm_subs_epu16(as<__m128i>(a), as<__m128i>(b)));
#elif defined(__aarch64__) && defined(__ARM_NEON)
  return as<V>(vqsubq_u16(as<uint16x8_t>(a), as<uint16x8_t>(b)));
#else
  return V{a > b ? a - b : V{}};
#endif
}

/// Bit by bit, `a` where `mask` is set and `b` elsewhere: one instruction that g++ 12 misses too.
template <size_t bytes>
COLL_INLINE Raw<bytes> select(Raw<bytes> mask, Raw<bytes> a, Raw<bytes> b) {
#if defined(__AVX512BW__)
  if constexpr (bytes == 64)
    return as<Raw<64>>(
        _mm512_ternarylogic_epi32(as<__m512i>(a), as<__m512i>(b), as<__m512i>(mask), 0xe4));
#endif
  return (a & mask) | (b & ~mask);
}

#if defined(__x86_64__)
/// While one lives, the CPU keeps the denormals of f32 even if the program has switched them off.
class KeepDenormals {
 public:
  KeepDenormals() : before_(_mm_getcsr()) {
    if (before_ & kFlush) _mm_setcsr(before_ & ~kFlush);
  }
  ~KeepDenormals() {
    if (before_ & kFlush) _mm_setcsr(before_);
  }
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  static constexpr unsigned kFlush = _MM_FLUSH_ZERO_MASK | _MM_DENORMALS_ZERO_MASK;
  unsigned before_;
};
#else
struct KeepDenormals {};
#endif

#if defined(__x86_64__)
constexpr bool kCanStream = true;

/// Stores past the caches; `to` is aligned to the register.
COLL_INLINE void stream(std::byte* to, Raw<kWidth> value) {
#if defined(__AVX512BW__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), as<__m512i>(value));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), as<__m256i>(value));
#else
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), as<__m128i>(value));
#endif
}

/// Orders streamed stores before later ordinary ones: a flag set after the pass means all is there.
COLL_INLINE void stream_end() {
  _mm_sfence();
}
#else
constexpr bool kCanStream = false;
COLL_INLINE void stream(std::byte* to, Raw<kWidth> value) {
  store<kWidth>(to, value);
}
COLL_INLINE void stream_end() {}
#endif

}  // namespace
}  // namespace coll::reduce
