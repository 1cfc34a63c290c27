// SPDX-License-Identifier: Apache-2.0
// What each operation makes of two elements of each type: docs/numerics.md as code of the device.
//
// ElementStep<op, T>::apply(a, b, ranks) takes and gives the bits of elements. Every operation of
// floats is rounded by itself: the intrinsics are never fused to a multiply-add.
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/types.hpp"
#include "reduce/device/small_floats.cuh"

namespace coll::reduce::device {

#if defined(__CUDA_ARCH__)
__device__ inline float add(float a, float b) {
  return __fadd_rn(a, b);
}
__device__ inline float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline float divide(float a, float b) {
  return __fdiv_rn(a, b);
}
__device__ inline double add(double a, double b) {
  return __dadd_rn(a, b);
}
__device__ inline double multiply(double a, double b) {
  return __dmul_rn(a, b);
}
__device__ inline double divide(double a, double b) {
  return __ddiv_rn(a, b);
}
#else
template <class T>
T add(T a, T b) {
  return a + b;
}
template <class T>
T multiply(T a, T b) {
  return a * b;
}
template <class T>
T divide(T a, T b) {
  return a / b;
}
#endif

/// sum, prod and avg of numbers.
template <ReduceOp op, class T>
__device__ T arithmetic(T a, T b, std::uint64_t ranks) {
  if constexpr (op == ReduceOp::prod) {
    return multiply(a, b);
  } else {
    const T sum = add(a, b);
    if constexpr (op == ReduceOp::avg) return divide(sum, static_cast<T>(ranks));
    return sum;
  }
}

__device__ inline float widen(Float32, std::uint32_t bits) {
  return as_float(bits);
}
__device__ inline double widen(Float64, std::uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}
/// A NaN becomes the one NaN.
__device__ inline std::uint32_t narrow(Float32, float x) {
  return x == x ? bits_of_float(x) : Float32::kNan;
}
__device__ inline std::uint64_t narrow(Float64, double x) {
  return x == x ? __builtin_bit_cast(std::uint64_t, x) : Float64::kNan;
}

/// A complex number of two floats of a format.
template <class Format>
struct ComplexOf {
  using Part = Format;
};
/// Its bits.
template <class Format>
struct ComplexBits {
  typename Format::Bits real, imaginary;
};
template <class T>
inline constexpr bool kIsComplex = false;
template <class Format>
inline constexpr bool kIsComplex<ComplexOf<Format>> = true;

template <ReduceOp op>
inline constexpr bool kIsBitwise =
    op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
template <ReduceOp op>
inline constexpr bool kIsLogical =
    op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor;
/// The logical operation that an operation is on truth values.
template <ReduceOp op>
inline constexpr ReduceOp kOfTruth =
    op == ReduceOp::prod || op == ReduceOp::min || op == ReduceOp::band || op == ReduceOp::land
        ? ReduceOp::land
    : op == ReduceOp::bxor || op == ReduceOp::lxor ? ReduceOp::lxor
                                                   : ReduceOp::lor;

/// A truth value out of two.
template <ReduceOp op>
__device__ bool logical(bool a, bool b) {
  if constexpr (op == ReduceOp::land) return a && b;
  if constexpr (op == ReduceOp::lor) return a || b;
  if constexpr (op == ReduceOp::lxor) return a != b;
}

template <ReduceOp op, class Bits>
__device__ Bits bitwise(Bits a, Bits b) {
  if constexpr (op == ReduceOp::band) return static_cast<Bits>(a & b);
  if constexpr (op == ReduceOp::bor) return static_cast<Bits>(a | b);
  if constexpr (op == ReduceOp::bxor) return static_cast<Bits>(a ^ b);
}

/// A float of one of the formats.
template <ReduceOp op, class Format>
struct ElementStep {
  using Element = typename Format::Bits;
  static constexpr int kParts = 1;  ///< elements of this pass in one of the type

  __device__ static Element apply(Element a, Element b, std::uint64_t ranks) {
    constexpr Element kMask = kMagnitude<Format>;
    const auto size_a = static_cast<Element>(a & kMask), size_b = static_cast<Element>(b & kMask);
    if constexpr (kIsLogical<op>) {  // -0 is false, NaN is true; 1.0 has the middle exponent
      constexpr auto kOne = static_cast<Element>(kMask >> (Format::kDigits + 1) << Format::kDigits);
      return logical<op>(size_a != 0, size_b != 0) ? kOne : Element{0};
    } else if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
      // Integers order as the floats do once the magnitude of the negative ones is inverted; so -0
      // is below +0.
      using Key = std::make_signed_t<Element>;
      const auto key_a = static_cast<Key>(a > kMask ? a ^ kMask : a);
      const auto key_b = static_cast<Key>(b > kMask ? b ^ kMask : b);
      const Element r = (op == ReduceOp::min ? key_a < key_b : key_a > key_b) ? a : b;
      return (size_a > size_b ? size_a : size_b) > Format::kMost ? Format::kNan : r;
    } else {
      return narrow(Format{}, arithmetic<op>(widen(Format{}, a), widen(Format{}, b), ranks));
    }
  }
};

/// An integer. Sums and products wrap, so they are computed unsigned.
template <ReduceOp op, class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct ElementStep<op, T> {
  using Element = std::make_unsigned_t<T>;
  static constexpr int kParts = 1;

  __device__ static Element apply(Element a, Element b, std::uint64_t ranks) {
    // Arithmetic on what is narrower than an int would be signed.
    using Wide = std::conditional_t<sizeof(T) < 4, std::uint32_t, Element>;
    const auto x = static_cast<T>(a), y = static_cast<T>(b);
    if constexpr (kIsLogical<op>) {
      return logical<op>(a != 0, b != 0) ? Element{1} : Element{0};
    } else if constexpr (kIsBitwise<op>) {
      return bitwise<op>(a, b);
    } else if constexpr (op == ReduceOp::min) {
      return x < y ? a : b;
    } else if constexpr (op == ReduceOp::max) {
      return x > y ? a : b;
    } else if constexpr (op == ReduceOp::prod) {
      return static_cast<Element>(Wide{a} * Wide{b});
    } else {
      const auto sum = static_cast<Element>(Wide{a} + Wide{b});
      if constexpr (op ==
                    ReduceOp::avg) {  // truncated toward zero; a communicator has < 2^31 ranks
        using Divisor = std::conditional_t<
            sizeof(T) == 8, T,
            std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>;
        return static_cast<Element>(static_cast<Divisor>(static_cast<T>(sum)) /
                                    static_cast<Divisor>(ranks));
      }
      return sum;
    }
  }
};

/// A bool: every operation is logical and gives 0 or 1.
template <ReduceOp op>
struct ElementStep<op, bool> {
  using Element = std::uint8_t;
  static constexpr int kParts = 1;
  __device__ static Element apply(Element a, Element b, std::uint64_t) {
    return logical<kOfTruth<op>>(a != 0, b != 0) ? Element{1} : Element{0};
  }
};

/// A complex number: part by part.
template <ReduceOp op, class Format>
struct ElementStep<op, ComplexOf<Format>> : ElementStep<op, Format> {
  static constexpr int kParts = 2;
};

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i: four products and two sums, each rounded once.
template <class Format>
struct ElementStep<ReduceOp::prod, ComplexOf<Format>> {
  using Element = ComplexBits<Format>;
  static constexpr int kParts = 1;
  __device__ static Element apply(Element a, Element b, std::uint64_t) {
    const auto ar = widen(Format{}, a.real), ai = widen(Format{}, a.imaginary);
    const auto br = widen(Format{}, b.real), bi = widen(Format{}, b.imaginary);
    return {narrow(Format{}, add(multiply(ar, br), -multiply(ai, bi))),
            narrow(Format{}, add(multiply(ar, bi), multiply(ai, br)))};
  }
};

}  // namespace coll::reduce::device
