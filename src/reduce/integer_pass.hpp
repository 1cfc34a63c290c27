// SPDX-License-Identifier: Apache-2.0
// Sums, products, averages, minima and maxima of integers on one register.
//
// Sums and products wrap, so they are computed unsigned. Only kernels.cpp includes this; see
// vector.hpp about the unnamed namespace.
#pragma once
#include <type_traits>

#include "base/types.hpp"
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

/// x / d toward zero of the 8- or 16-bit integers in every lane of 32 bits, each by f32: exact,
/// since a quotient that is no integer is at least 2^-17 of itself below the next one.
template <class T, size_t bytes>
COLL_INLINE Raw<bytes> divide_small(Raw<bytes> x, float d) {
  using Word = Vector<int, bytes>;
  using F = Vector<float, bytes>;
  constexpr unsigned kBits = 8 * sizeof(T), kUnused = 32 - kBits;
  Raw<bytes> result{};
  for (unsigned at = 0; at < 32; at += kBits) {
    const Raw<bytes> top = x << (kUnused - at);
    Word word;
    if constexpr (std::is_signed_v<T>)
      word = as<Word>(top) >> kUnused;
    else
      word = as<Word>(top >> kUnused);
    const F quotient = __builtin_convertvector(word, F) / (F{} + d);
    result |= (as<Raw<bytes>>(__builtin_convertvector(quotient, Word)) & (~0u >> kUnused)) << at;
  }
  return result;
}

/// x / d toward zero of the uint32 in every 64-bit lane, by f64: exact for the same reason. Adding
/// 2^52 rounds to the nearest integer, which may be one too many.
template <size_t bytes>
COLL_INLINE Vector<std::uint64_t, bytes> divide_word(Vector<std::uint64_t, bytes> x, double d) {
  using U = Vector<std::uint64_t, bytes>;
  using F = Vector<double, bytes>;
  constexpr double kTwo52 = 4503599627370496.0;
  constexpr std::uint64_t kTwo52Bits = 0x4330000000000000u;
  const F quotient = (as<F>(x | kTwo52Bits) - kTwo52) / (F{} + d);
  const F rounded = quotient + kTwo52;
  return (as<U>(rounded) + as<U>(rounded - kTwo52 > quotient)) & 0xffffffffu;
}

template <class T, size_t bytes>
COLL_INLINE Raw<bytes> divide_words(Raw<bytes> x, double d) {
  using U = Vector<std::uint64_t, bytes>;
  Raw<bytes> sign{};
  if constexpr (std::is_signed_v<T>) sign = as<Raw<bytes>>(as<Vector<T, bytes>>(x) >> 31);
  const U magnitude = as<U>((x ^ sign) - sign);
  const U low = divide_word<bytes>(magnitude & 0xffffffffu, d);
  const U high = divide_word<bytes>(magnitude >> 32, d);
  return (as<Raw<bytes>>(low | (high << 32)) ^ sign) - sign;
}

template <ReduceOp op, class T>
struct IntegerPass {
  using Element = T;
  size_t ranks;
  explicit IntegerPass(size_t n) : ranks(n) {}

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using R = Raw<kBytes>;
    using V = Vector<T, kBytes>;
    using U = Vector<std::make_unsigned_t<T>, kBytes>;
    const V a = as<V>(load<step>(at_a)), b = as<V>(load<step>(at_b));
    if constexpr (op == ReduceOp::min) return as<R>(a < b ? a : b);
    if constexpr (op == ReduceOp::max) return as<R>(a > b ? a : b);
    if constexpr (op == ReduceOp::prod) return as<R>(as<U>(a) * as<U>(b));
    const U sum = as<U>(a) + as<U>(b);
    if constexpr (op == ReduceOp::sum) return as<R>(sum);
    if constexpr (op == ReduceOp::avg) {
      if constexpr (sizeof(T) <= 2)
        return divide_small<T, kBytes>(as<R>(sum), static_cast<float>(ranks));
      if constexpr (sizeof(T) == 4)
        return divide_words<T, kBytes>(as<R>(sum), static_cast<double>(ranks));
      if constexpr (sizeof(T) == 8) return as<R>(as<V>(sum) / (V{} + static_cast<T>(ranks)));
    }
  }
};

}  // namespace
}  // namespace coll::reduce
