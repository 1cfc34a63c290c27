// SPDX-License-Identifier: Apache-2.0
// What one element must become, in higher precision.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/types.hpp"

namespace coll::test {

__extension__ using Int128 = __int128;
#if defined(__SIZEOF_FLOAT128__)
__extension__ using Float128 = __float128;
#else
using Float128 = long double;  // quadruple precision where there is no __float128, as on aarch64
#endif

/// An element is its bits in the low end of 64.
using Element = std::uint64_t;

template <class To>
To bits_as(std::uint64_t bits) {
  To value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class From>
std::uint64_t bits_of(From value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// The shape of a float format: bits after the point, the exponent of its least normal number, the
/// bits of its largest magnitude and of its NaN; is that magnitude infinity?
struct Format {
  int mantissa, least;
  std::uint64_t most, nan;
  bool infinite = true;
};
inline constexpr Format kE4m3{3, -6, 0x7e, 0x7f, false};
inline constexpr Format kE5m2{2, -14, 0x7c, 0x7e};
inline constexpr Format kF16{10, -14, 0x7c00, 0x7e00};
inline constexpr Format kBf16{7, -126, 0x7f80, 0x7fc0};
inline constexpr Format kF32{23, -126, 0x7f800000, 0x7fc00000};
inline constexpr Format kF64{52, -1022, 0x7ff0000000000000, 0x7ff8000000000000};

inline const Format& format_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return kF16;
    case DataType::bfloat16:
      return kBf16;
    case DataType::float32:
      return kF32;
    case DataType::float8_e4m3:
      return kE4m3;
    case DataType::float8_e5m2:
      return kE5m2;
    default:
      return kF64;
  }
}

inline bool is_float(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
    case DataType::float64:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return true;
    default:
      return false;
  }
}
inline bool is_signed_integer(DataType type) {
  return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 ||
         type == DataType::int64;
}
inline bool is_complex(DataType type) {
  return type == DataType::complex64 || type == DataType::complex128;
}
/// The type of a complex number's two parts; any other type itself.
inline DataType part_of(DataType type) {
  return type == DataType::complex64    ? DataType::float32
         : type == DataType::complex128 ? DataType::float64
                                        : type;
}
inline Element sign_bit(const Format& f) {
  return (f.nan << 1) & ~f.nan;
}

/// Any of the formats as a double: always exact.
inline double decode(const Format& f, Element e) {
  const double sign = (e & sign_bit(f)) ? -1.0 : 1.0;
  const Element magnitude = e & (sign_bit(f) - 1);
  if (magnitude > f.most) return std::numeric_limits<double>::quiet_NaN();
  if (f.infinite && magnitude == f.most) return sign * std::numeric_limits<double>::infinity();
  const Element one = Element{1} << f.mantissa;
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  const Element digits = exponent ? (magnitude % one) + one : magnitude;
  return sign * std::ldexp(static_cast<double>(digits),
                           (exponent ? exponent - 1 : 0) + f.least - f.mantissa);
}

/// To the nearest number of the format, ties to even; by counting units in the last place. Beyond
/// the largest: that or infinity, whichever the format ends with.
inline Element encode(const Format& f, double value) {
  if (std::isnan(value)) return f.nan;
  const Element sign = std::signbit(value) ? sign_bit(f) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | f.most;
  int exponent = std::ilogb(magnitude);
  if (exponent < f.least) exponent = f.least;
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  // A carry out of the digits lands in the exponent, and past the largest number at what is most.
  const Element bits =
      static_cast<Element>(units) + (static_cast<Element>(exponent - f.least) << f.mantissa);
  return sign | (bits > f.most ? f.most : bits);
}

/// a op b before the division, where neither is NaN; Wide holds twice the digits of T.
template <class T, class Wide>
T float_step(ReduceOp op, T a, T b, bool finish, std::size_t ranks) {
  if (op == ReduceOp::min || op == ReduceOp::max) {
    if (a == b) {
      const bool negative = op == ReduceOp::min ? std::signbit(a) || std::signbit(b)
                                                : std::signbit(a) && std::signbit(b);
      return a == T{0} ? (negative ? -T{0} : T{0}) : a;
    }
    return (a < b) == (op == ReduceOp::min) ? a : b;
  }
  const Wide x = a, y = b;
  T r = static_cast<T>(op == ReduceOp::prod ? x * y : x + y);
  if (x + y == Wide{0} && op != ReduceOp::prod) r = a + b;  // the sign of an exact zero
  if (op == ReduceOp::avg && finish)
    r = static_cast<T>(static_cast<Wide>(r) / static_cast<Wide>(ranks));
  return r;
}

/// A truth value out of two.
inline bool truth_of(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::band:
    case ReduceOp::land:
      return a && b;
    case ReduceOp::bxor:
    case ReduceOp::lxor:
      return a != b;
    default:
      return a || b;
  }
}

/// The bits that one element of a pass must have; for complex numbers see expected_complex.
inline Element expected(ReduceOp op, DataType type, bool finish, std::size_t ranks, Element a,
                        Element b) {
  if (type == DataType::boolean) return truth_of(op, a != 0, b != 0) ? 1 : 0;
  if (op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor) {
    const Format* f = is_float(type) ? &format_of(type) : nullptr;
    const auto truth = [&](Element e) { return f ? decode(*f, e) != 0 : e != 0; };
    const Element one = f ? encode(*f, 1.0) : 1;
    return truth_of(op, truth(a), truth(b)) ? one : 0;
  }
  if (is_float(type)) {
    const Format& f = format_of(type);
    const double x = decode(f, a), y = decode(f, b);
    if (std::isnan(x) || std::isnan(y)) return f.nan;
    if (type == DataType::float64) {
      const double r = float_step<double, Float128>(op, x, y, finish, ranks);
      return std::isnan(r) ? f.nan : bits_of(r);
    }
    return encode(f, static_cast<double>(float_step<float, double>(
                         op, static_cast<float>(x), static_cast<float>(y), finish, ranks)));
  }
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size_of(type));
  const auto value = [&](Element e) -> Int128 {
    e <<= unused;
    return is_signed_integer(type) ? Int128{static_cast<std::int64_t>(e) >> unused}
                                   : Int128{e >> unused};
  };
  Int128 r = 0;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      r = value(a) + value(b);
      break;
    case ReduceOp::prod:
      return static_cast<Element>(a * b) << unused >> unused;
    case ReduceOp::min:
      r = value(a) < value(b) ? value(a) : value(b);
      break;
    case ReduceOp::max:
      r = value(a) > value(b) ? value(a) : value(b);
      break;
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
    default:  // logical: above
      break;
  }
  if (op == ReduceOp::avg && finish)
    r = value(static_cast<Element>(r)) / static_cast<Int128>(ranks);  // the wrapped sum, truncated
  return static_cast<Element>(r) << unused >> unused;
}

/// The two parts of a complex result.
struct ComplexElement {
  Element real, imaginary;
};
inline ComplexElement expected_complex(ReduceOp op, DataType type, bool finish, std::size_t ranks,
                                       ComplexElement a, ComplexElement b) {
  const DataType part = part_of(type);
  const auto rounded = [&](ReduceOp step, Element x, Element y) {
    return expected(step, part, finish, ranks, x, y);
  };
  if (op != ReduceOp::prod)
    return {rounded(op, a.real, b.real), rounded(op, a.imaginary, b.imaginary)};
  const auto times = [&](Element x, Element y) { return rounded(ReduceOp::prod, x, y); };
  const Element minus = sign_bit(format_of(part));
  return {rounded(ReduceOp::sum, times(a.real, b.real), times(a.imaginary, b.imaginary) ^ minus),
          rounded(ReduceOp::sum, times(a.real, b.imaginary), times(a.imaginary, b.real))};
}

}  // namespace coll::test
