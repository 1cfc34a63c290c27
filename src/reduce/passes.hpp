// SPDX-License-Identifier: Apache-2.0
// Sums, products, averages, minima and maxima on one register of each dtype, and which pass each
// pair of an operation and a dtype takes.
//
// Pass<op, T> is made once per call; apply<step>() combines `step` bytes at two addresses. avg
// means "add, then divide": where avg only combines, the table uses sum. Only kernels.cpp includes
// this; see vector.hpp about the unnamed namespace.
#pragma once
#include <type_traits>
#include <utility>

#include "base/types.hpp"
#include "reduce/float8.hpp"
#include "reduce/half.hpp"
#include "reduce/integer_pass.hpp"
#include "reduce/logic.hpp"
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

// ---- floats: every NaN leaves a pass as the same one, for of two NaNs a CPU keeps the first ----

template <class T>
struct Float;
template <>
struct Float<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kNan = 0x7fc00000u;
  static constexpr int kDigits = 23;
};
template <>
struct Float<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kNan = 0x7ff8000000000000u;
  static constexpr int kDigits = 52;
};

/// avg divides by `ranks`, or multiplies by it: the bits are the same for 1/n of a power of two.
template <ReduceOp op, bool by_product = false, class V, class T>
COLL_INLINE V arithmetic(V a, V b, T ranks) {
  if constexpr (op == ReduceOp::prod) return a * b;
  if constexpr (op == ReduceOp::sum) return a + b;
  if constexpr (op == ReduceOp::avg && by_product) return (a + b) * (V{} + ranks);
  if constexpr (op == ReduceOp::avg && !by_product) return (a + b) / (V{} + ranks);
}

template <ReduceOp op, class T, bool by_product = false>
struct FloatPass {
  using Element = T;
  T ranks;
  explicit FloatPass(size_t n) : ranks(static_cast<T>(n)) {
    if (by_product) ranks = 1 / ranks;
  }

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using V = Vector<T, kBytes>;
    using Bits = Vector<typename Float<T>::Bits, kBytes>;
    const V a = as<V>(load<step>(at_a)), b = as<V>(load<step>(at_b));
    const V nan = as<V>(Bits{} + Float<T>::kNan);
    V r;
    if constexpr (op == ReduceOp::min) {  // of two zeros -0 is less: the or of the signs
      r = as<V>(as<Bits>(a < b ? a : b) | as<Bits>(b < a ? b : a));
      r = r == r ? r : nan;  // unordered: r is b | a, still a NaN
    } else if constexpr (op == ReduceOp::max) {
      r = as<V>(as<Bits>(a > b ? a : b) & as<Bits>(b > a ? b : a));
      r = ((a == a) & (b == b)) ? r : nan;
    } else {
      r = arithmetic<op, by_product>(a, b, ranks);
      r = r == r ? r : nan;
    }
    return as<Raw<kBytes>>(r);
  }
};

/// A complex number of two Ts, the real part first.
template <class T>
struct Complex {
  T parts[2];
};

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i: four products and two sums, each rounded once.
template <class T>
struct ComplexProduct {
  using Element = Complex<T>;
  explicit ComplexProduct(size_t) {}

  template <class V, class Bits, size_t... i>
  COLL_INLINE static V multiply(V a, V b, std::index_sequence<i...>) {
    constexpr auto kSign =
        static_cast<typename Float<T>::Bits>(~(~typename Float<T>::Bits{0} >> 1));
    const V real = __builtin_shufflevector(a, a, (i & ~size_t{1})...);
    const V imaginary = __builtin_shufflevector(a, a, (i | 1)...);
    const V swapped = __builtin_shufflevector(b, b, (i ^ 1)...);
    const Bits minus{(i % 2 == 0 ? kSign : 0)...};  // before the products that are taken off
    return real * b + as<V>(as<Bits>(imaginary * swapped) ^ minus);
  }

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using V = Vector<T, kBytes>;
    using Bits = Vector<typename Float<T>::Bits, kBytes>;
    const V r = multiply<V, Bits>(as<V>(load<step>(at_a)), as<V>(load<step>(at_b)),
                                  std::make_index_sequence<kBytes / sizeof(T)>{});
    return as<Raw<kBytes>>(r == r ? r : as<V>(Bits{} + Float<T>::kNan));
  }
};

/// Two registers of 16-bit floats before they are rounded, without NaNs of other bits.
struct Two {
  Pair<kWidth> first, second;
};

/// sum, prod and avg of 16-bit floats: in f32, with one rounding at the end of the pass. f16's own
/// sums and products are the same: f32 has twice the digits and two more (see float8.hpp).
template <ReduceOp op, class Format, bool by_product = false>
struct HalfPass {
  using Element = std::uint16_t;
  using Number = Format;
  static constexpr bool kNative = kNativeF16 && std::is_same_v<Format, F16> && op != ReduceOp::avg;
  static constexpr bool kTwice = kCheapNanBranch<Format> && !kNative;
  float ranks;
  explicit HalfPass(size_t n) : ranks(static_cast<float>(n)) {
    if (by_product) ranks = 1 / ranks;
  }

  template <size_t step>
  COLL_INLINE Pair<register_of(step)> compute(const std::byte* at_a, const std::byte* at_b) const {
    const auto a = read<step>(Format{}, at_a), b = read<step>(Format{}, at_b);
    return {arithmetic<op, by_product>(a.low, b.low, ranks),
            arithmetic<op, by_product>(a.high, b.high, ranks)};
  }

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using Halves = Vector<std::int16_t, kBytes>;
    Halves r;
    if constexpr (kNative) {
      using V = Vector<NativeF16, kBytes>;
      r = as<Halves>(arithmetic<op>(as<V>(load<step>(at_a)), as<V>(load<step>(at_b)), NativeF16{}));
    } else {
      r = as<Halves>(pack<kBytes>(Format{}, compute<step>(at_a, at_b)));
    }
    const auto is_nan = (r & std::int16_t{0x7fff}) > Halves{} + Format::kMost;
    return as<Raw<kBytes>>(is_nan ? Halves{} + Format::kNan : r);
  }

  COLL_INLINE Two apply_twice(const std::byte* at_a, const std::byte* at_b) const {
    Two r{compute<kWidth>(at_a, at_b), compute<kWidth>(at_a + kWidth, at_b + kWidth)};
    if constexpr (kTwice) {
      if (any_nan(r.first, r.second)) [[unlikely]]
        r = {{one_nan(r.first.low), one_nan(r.first.high)},
             {one_nan(r.second.low), one_nan(r.second.high)}};
    }
    return r;
  }

 private:
  COLL_INLINE static Vector<float, kWidth> one_nan(Vector<float, kWidth> x) {
    return x == x ? x : as<Vector<float, kWidth>>(Raw<kWidth>{} + Float<float>::kNan);
  }
};

/// sum, prod and avg of 8-bit floats: in f32 by way of f16, or in f16 where that is enough.
template <ReduceOp op, class Format>
struct Float8Pass {
  using Element = std::uint8_t;
  float ranks;
  explicit Float8Pass(size_t n) : ranks(static_cast<float>(n)) {}

  template <size_t bytes>
  COLL_INLINE Raw<bytes> halves(Raw<bytes> half_a, Raw<bytes> half_b) const {
    if constexpr (kNativeF16 && op != ReduceOp::avg) {
      using V = Vector<NativeF16, bytes>;
      constexpr auto kScale = static_cast<NativeF16>(op == ReduceOp::prod ? Format::kScale : 1.0f);
      const V a = as<V>(half_a) * kScale;  // exact
      return as<Raw<bytes>>(arithmetic<op>(a, as<V>(half_b), NativeF16{}));
    }
    const auto a = widen<bytes>(F16{}, half_a), b = widen<bytes>(F16{}, half_b);
    Pair<bytes> r{arithmetic<op>(a.low, b.low, ranks), arithmetic<op>(a.high, b.high, ranks)};
    if constexpr (op == ReduceOp::prod && Format::kScale != 1.0f) {
      r.low *= Format::kScale;
      r.high *= Format::kScale;
    }
    if constexpr (op == ReduceOp::avg)
      r = {round<bytes>(Format{}, r.low), round<bytes>(Format{}, r.high)};
    return pack<bytes>(F16{}, r);
  }

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using Bytes = Vector<std::int8_t, kBytes>;
    const auto a = load<step>(at_a), b = load<step>(at_b);
    const auto x = split<kBytes>(Format{}, a), y = split<kBytes>(Format{}, b);
    const auto r = as<Bytes>(
        join<kBytes>(Format{}, {halves<kBytes>(x.even, y.even), halves<kBytes>(x.odd, y.odd)}));
    Bytes size = r & std::int8_t{0x7f};
    if constexpr (!Format::kInfinities) {  // only an operand can be a NaN, and was taken as 480
      const Bytes size_a = as<Bytes>(a) & std::int8_t{0x7f};
      const Bytes size_b = as<Bytes>(b) & std::int8_t{0x7f};
      size = size_a > size_b ? size_a : size_b;
    }
    return as<Raw<kBytes>>(size > Bytes{} + Format::kMost ? Bytes{} + Format::kNan : r);
  }
};

/// The sum of E4M3 where f16 is dear: in f32, a zero and the sign by the operands.
struct E4M3Sum {
  using Element = std::uint8_t;
  KeepDenormals keep;
  explicit E4M3Sum(size_t) {}

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using R = Raw<kBytes>;
    using Bytes = Vector<std::int8_t, kBytes>;
    constexpr std::int8_t kSign = -128;
    const R x = load<step>(at_a), y = load<step>(at_b);
    const auto a = as<Bytes>(x), b = as<Bytes>(y);
    const Bytes size_a = a & std::int8_t{0x7f}, size_b = b & std::int8_t{0x7f};
    const auto larger = as<R>(size_a > size_b ? a : b);
    const R sum = select<kBytes>(as<R>(Bytes{} + kSign), larger, add<kBytes>(E4M3{}, x, y));
    const Bytes r = (a ^ b) == Bytes{} + kSign ? Bytes{} : as<Bytes>(sum);  // x - x is +0
    const auto is_nan = (size_a > size_b ? size_a : size_b) > Bytes{} + E4M3::kMost;
    return as<R>(is_nan ? Bytes{} + E4M3::kNan : r);
  }
};

/// min and max of floats of 8 and 16 bits: in integers, which order as the floats do unless both
/// are negative, and then the other way.
template <ReduceOp op, class Format>
struct SmallOrder {
  using Bits = typename Format::Bits;
  using Element = std::make_unsigned_t<Bits>;
  explicit SmallOrder(size_t) {}

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using V = Vector<Bits, kBytes>;
    const auto a = as<V>(load<step>(at_a)), b = as<V>(load<step>(at_b));
    constexpr auto magnitude = static_cast<Bits>(static_cast<Element>(-1) >> 1);
    const V lesser = a < b ? a : b, larger = a > b ? a : b;
    const V most = op == ReduceOp::min ? lesser : larger,
            other = op == ReduceOp::min ? larger : lesser;
    const V r = (a & b) < 0 ? other : most;
    const V size_a = a & magnitude, size_b = b & magnitude;
    const auto is_nan = (size_a > size_b ? size_a : size_b) > V{} + Format::kMost;
    return as<Raw<kBytes>>(is_nan ? V{} + Format::kNan : r);
  }
};

/// What a pass may have beside apply(): apply_twice(), and the same pass by a product, for a power
/// of two of ranks.
template <class P>
struct Takes {
  static constexpr bool kTwice = false;
  using ByProduct = void;
};
template <ReduceOp op, class Format, bool by_product>
struct Takes<HalfPass<op, Format, by_product>> {
  using Pass = HalfPass<op, Format, by_product>;
  static constexpr bool kTwice = Pass::kTwice;
  using ByProduct = std::conditional_t<op == ReduceOp::avg, HalfPass<op, Format, true>, void>;
};
template <class T>
struct Takes<FloatPass<ReduceOp::avg, T>> {
  static constexpr bool kTwice = false;
  using ByProduct = FloatPass<ReduceOp::avg, T, true>;
};

// ---- which pass a dtype and an operation take ----

/// A pass is made with the number of ranks, or with a number that the type gives.
constexpr size_t kRanks = ~size_t{0};

/// A pass, the bytes of an element, and what the pass is made with. Where these three are the same,
/// two dtypes share their kernels.
template <class P, size_t bytes, size_t made_with = kRanks>
struct Use {
  using Pass = P;
  static constexpr size_t kBytes = bytes, kMadeWith = made_with;
};

constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}
constexpr bool is_logical(ReduceOp op) {
  return op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor;
}

/// The logical operation that an operation is on truth values.
constexpr ReduceOp of_truth(ReduceOp op) {
  using enum ReduceOp;
  if (op == prod || op == min || op == band || op == land) return land;
  return op == bxor || op == lxor ? lxor : lor;
}

template <ReduceOp op, class T>
constexpr auto use() {
  // Sums, products, bits and truth are the same signed and unsigned.
  if constexpr (std::is_same_v<T, bool>) {
    return Use<LogicalPass<of_truth(op), std::uint8_t>, 1, 0>{};
  } else if constexpr (is_bitwise(op)) {
    return Use<BitwisePass<op>, sizeof(T)>{};
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if constexpr (is_logical(op))
      return Use<LogicalPass<op, U>, sizeof(T), 0>{};
    else if constexpr (op == ReduceOp::sum || op == ReduceOp::prod)
      return Use<IntegerPass<op, U>, sizeof(T)>{};
    else
      return Use<IntegerPass<op, T>, sizeof(T)>{};
  } else if constexpr (std::is_floating_point_v<T>) {
    if constexpr (is_logical(op))
      return Use<LogicalPass<op, typename Float<T>::Bits>, sizeof(T), Float<T>::kDigits>{};
    else
      return Use<FloatPass<op, T>, sizeof(T)>{};
  } else if constexpr (std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>) {
    using Part = std::remove_extent_t<decltype(T::parts)>;
    if constexpr (op == ReduceOp::prod)
      return Use<ComplexProduct<Part>, sizeof(T)>{};
    else  // part by part
      return Use<FloatPass<op, Part>, sizeof(T)>{};
  } else {  // a float of 8 or 16 bits
    constexpr size_t kBytes = sizeof(typename T::Bits);
    if constexpr (is_logical(op))
      return Use<LogicalPass<op, std::make_unsigned_t<typename T::Bits>>, kBytes, T::kDigits>{};
    else if constexpr (op == ReduceOp::min || op == ReduceOp::max)
      return Use<SmallOrder<op, T>, kBytes>{};
    else if constexpr (kBytes == 2)
      return Use<HalfPass<op, T>, kBytes>{};
    else if constexpr (op == ReduceOp::sum && std::is_same_v<T, E4M3> && !kCheapF16)
      return Use<E4M3Sum, kBytes>{};
    else
      return Use<Float8Pass<op, T>, kBytes>{};
  }
}

}  // namespace
}  // namespace coll::reduce
