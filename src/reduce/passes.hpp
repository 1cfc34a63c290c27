// SPDX-License-Identifier: Apache-2.0
// reduce/: the [op][dtype] kernels. This file: each operation on one register of each dtype.
//
// Pass<op, T> is made once per call; apply() maps two registers to one. avg means "add, then
// divide": where avg only combines, the table uses sum.
// Only kernels.cpp includes this; see vector.hpp about the unnamed namespace.
#pragma once
#include <type_traits>

#include "base/types.hpp"
#include "reduce/half.hpp"
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

// ---- f32 and f64; f16 and bf16 pass through f32 ----

/// The bits of the only NaN that leaves a pass.
template <class T>
struct Float;
template <>
struct Float<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kNan = 0x7fc00000u;
};
template <>
struct Float<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kNan = 0x7ff8000000000000u;
};

template <ReduceOp op, class T, size_t bytes>
COLL_INLINE Vector<T, bytes> float_pass(Vector<T, bytes> a, Vector<T, bytes> b, T ranks) {
  using V = Vector<T, bytes>;
  using Bits = Vector<typename Float<T>::Bits, bytes>;
  const V nan = as<V>(Bits{} + Float<T>::kNan);
  if constexpr (op == ReduceOp::min) {  // two zeros: the or of the signs is the lesser
    const V x = a < b ? a : b, y = b < a ? b : a;
    const V least = as<V>(as<Bits>(x) | as<Bits>(y));
    return least == least ? least : nan;  // unordered: x | y is b | a, still a NaN
  } else if constexpr (op == ReduceOp::max) {
    const V x = a > b ? a : b, y = b > a ? b : a;
    const V most = as<V>(as<Bits>(x) & as<Bits>(y));
    return ((a == a) & (b == b)) ? most : nan;
  } else {
    V r;
    if constexpr (op == ReduceOp::prod)
      r = a * b;
    else
      r = a + b;
    if constexpr (op == ReduceOp::avg) r = r / (V{} + ranks);
    return r == r ? r : nan;  // of two NaNs a CPU keeps the first operand's bits
  }
}

// ---- integers: sums and products wrap, so they are computed unsigned ----

/// x / d toward zero in every lane of four bytes, each byte by f32: exact, since a quotient that is
/// no integer is at least 1/255 below the next one.
template <class T, size_t bytes>
COLL_INLINE Raw<bytes> divide_bytes(Raw<bytes> x, float d) {
  using Word = Vector<int, bytes>;
  using F = Vector<float, bytes>;
  Raw<bytes> result{};
  for (unsigned at = 0; at < 32; at += 8) {
    const Raw<bytes> top = x << (24 - at);
    Word word;
    if constexpr (std::is_signed_v<T>)
      word = as<Word>(top) >> 24;
    else
      word = as<Word>(top >> 24);
    const F quotient = __builtin_convertvector(word, F) / (F{} + d);
    result |= (as<Raw<bytes>>(__builtin_convertvector(quotient, Word)) & 0xffu) << at;
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

// ---- the passes ----

template <ReduceOp op, class T>
struct Pass {  // integers
  using Element = T;
  size_t ranks;
  explicit Pass(size_t n) : ranks(n) {}

  template <size_t bytes>
  COLL_INLINE Raw<bytes> apply(Raw<bytes> a, Raw<bytes> b) const {
    using V = Vector<T, bytes>;
    using U = Vector<std::make_unsigned_t<T>, bytes>;
    if constexpr (op == ReduceOp::sum) return as<Raw<bytes>>(as<U>(a) + as<U>(b));
    if constexpr (op == ReduceOp::prod) return as<Raw<bytes>>(as<U>(a) * as<U>(b));
    if constexpr (op == ReduceOp::min)
      return as<Raw<bytes>>(as<V>(a) < as<V>(b) ? as<V>(a) : as<V>(b));
    if constexpr (op == ReduceOp::max)
      return as<Raw<bytes>>(as<V>(a) > as<V>(b) ? as<V>(a) : as<V>(b));
    if constexpr (op == ReduceOp::avg) {
      const U sum = as<U>(a) + as<U>(b);
      if constexpr (sizeof(T) == 1)
        return divide_bytes<T, bytes>(as<Raw<bytes>>(sum), static_cast<float>(ranks));
      if constexpr (sizeof(T) == 4)
        return divide_words<T, bytes>(as<Raw<bytes>>(sum), static_cast<double>(ranks));
      if constexpr (sizeof(T) == 8)
        return as<Raw<bytes>>(as<V>(sum) / (V{} + static_cast<T>(ranks)));
    }
  }
};

template <ReduceOp op, class T>
struct FloatPass {
  using Element = T;
  T ranks;
  explicit FloatPass(size_t n) : ranks(static_cast<T>(n)) {}

  template <size_t bytes>
  COLL_INLINE Raw<bytes> apply(Raw<bytes> a, Raw<bytes> b) const {
    using V = Vector<T, bytes>;
    return as<Raw<bytes>>(float_pass<op, T, bytes>(as<V>(a), as<V>(b), ranks));
  }
};

/// In f32, with one rounding to the 16-bit format at the end of the pass.
template <ReduceOp op, class Format>
struct HalfPass {
  using Element = std::uint16_t;
  float ranks;
  explicit HalfPass(size_t n) : ranks(static_cast<float>(n)) {}

  template <size_t bytes>
  COLL_INLINE Raw<bytes> apply(Raw<bytes> a, Raw<bytes> b) const {
    const auto x = unpack<bytes>(Format{}, a), y = unpack<bytes>(Format{}, b);
    return pack<bytes>(Format{}, {float_pass<op, float, bytes>(x.low, y.low, ranks),
                                  float_pass<op, float, bytes>(x.high, y.high, ranks)});
  }
};

template <ReduceOp op>
struct Pass<op, float> : FloatPass<op, float> {
  using FloatPass<op, float>::FloatPass;
};
template <ReduceOp op>
struct Pass<op, double> : FloatPass<op, double> {
  using FloatPass<op, double>::FloatPass;
};
template <ReduceOp op>
struct Pass<op, F16> : HalfPass<op, F16> {
  using HalfPass<op, F16>::HalfPass;
};
template <ReduceOp op>
struct Pass<op, BF16> : HalfPass<op, BF16> {
  using HalfPass<op, BF16>::HalfPass;
};

}  // namespace
}  // namespace coll::reduce
