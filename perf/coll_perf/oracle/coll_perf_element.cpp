// SPDX-License-Identifier: Apache-2.0
// Elements of every type to and from numbers of a higher precision.
#include "coll_perf/oracle/coll_perf_element.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace perf {
namespace {

/// A float of `Bits`: sign, exponent, `mantissa` bits; the bits of its largest magnitude, which may
/// be infinity, and of a NaN.
template <class Bits>
struct SmallFloat {
  int mantissa;
  int bias;
  Bits most;
  bool infinite;
  Bits nan;
  static constexpr Bits kSign = static_cast<Bits>(1U << (8 * sizeof(Bits) - 1));
};
constexpr SmallFloat<std::uint16_t> kHalf{10, 15, 0x7c00, true, 0x7e00};
constexpr SmallFloat<std::uint16_t> kBfloat{7, 127, 0x7f80, true, 0x7fc0};
constexpr SmallFloat<std::uint8_t> kE4m3{3, 7, 0x7e, false, 0x7f};
constexpr SmallFloat<std::uint8_t> kE5m2{2, 15, 0x7c, true, 0x7e};

template <class Bits>
Bits pack(const SmallFloat<Bits>& f, long double value) {
  const Bits sign = std::signbit(value) ? f.kSign : Bits{0};
  if (std::isnan(value)) return f.nan;
  const long double size = std::fabs(value);
  long bits = f.most;
  if (size == 0) {
    bits = 0;
  } else if (!std::isinf(size)) {
    int exponent = 0;
    std::frexp(size, &exponent);
    const int smallest = 1 - f.bias;
    const int unit = std::max(exponent - 1, smallest) - f.mantissa;
    const long digits = std::lrint(std::ldexp(size, -unit));  // the current mode: to even
    // A full mantissa carries into the exponent by itself; a subnormal has no hidden bit to take.
    bits = digits + (static_cast<long>(unit + f.mantissa - smallest) << f.mantissa);
    bits = std::min(bits, static_cast<long>(f.most));
  }
  return static_cast<Bits>(sign | bits);
}

template <class Bits>
long double unpack(const SmallFloat<Bits>& f, Bits bits) {
  const int magnitude = bits & ~f.kSign;
  const int exponent = magnitude >> f.mantissa;
  const int digits = magnitude & ((1 << f.mantissa) - 1);
  long double size = 0;
  if (magnitude > f.most)
    size = std::numeric_limits<long double>::quiet_NaN();
  else if (f.infinite && magnitude == f.most)
    size = std::numeric_limits<long double>::infinity();
  else if (exponent == 0)
    size = std::ldexp(static_cast<long double>(digits), 1 - f.bias - f.mantissa);
  else
    size = std::ldexp(static_cast<long double>(digits + (1 << f.mantissa)),
                      exponent - f.bias - f.mantissa);
  return (bits & f.kSign) != 0 ? -size : size;
}

template <class T>
void store(T value, void* element) {
  std::memcpy(element, &value, sizeof value);
}
template <class T>
T load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

}  // namespace

void encode(coll_dtype_t type, Value number, void* element) {
  const long double value = number.real();
  switch (type) {
    case COLL_INT16:
      return store(static_cast<std::int16_t>(value), element);
    case COLL_UINT16:
      return store(static_cast<std::uint16_t>(value), element);
    case COLL_BOOL:
      return store(static_cast<std::uint8_t>(value != 0), element);
    case COLL_COMPLEX64:
      return store(std::complex<float>(number), element);
    case COLL_COMPLEX128:
      return store(std::complex<double>(number), element);
    case COLL_INT8:
      return store(static_cast<std::int8_t>(value), element);
    case COLL_UINT8:
      return store(static_cast<std::uint8_t>(value), element);
    case COLL_INT32:
      return store(static_cast<std::int32_t>(value), element);
    case COLL_UINT32:
      return store(static_cast<std::uint32_t>(value), element);
    case COLL_INT64:
      return store(static_cast<std::int64_t>(value), element);
    case COLL_UINT64:
      return store(static_cast<std::uint64_t>(value), element);
    case COLL_FLOAT16:
      return store(pack(kHalf, value), element);
    case COLL_BFLOAT16:
      return store(pack(kBfloat, value), element);
    case COLL_FLOAT32:
      return store(static_cast<float>(value), element);
    case COLL_FLOAT64:
      return store(static_cast<double>(value), element);
    case COLL_FLOAT8_E4M3:
      return store(pack(kE4m3, value), element);
    case COLL_FLOAT8_E5M2:
      return store(pack(kE5m2, value), element);
    default:
      break;
  }
}

Value decode(coll_dtype_t type, const void* element) {
  switch (type) {
    case COLL_INT16:
      return load<std::int16_t>(element);
    case COLL_UINT16:
      return load<std::uint16_t>(element);
    case COLL_BOOL:  // any other byte than 0 and 1 is wrong
      return load<std::uint8_t>(element);
    case COLL_COMPLEX64:
      return load<std::complex<float>>(element);
    case COLL_COMPLEX128:
      return load<std::complex<double>>(element);
    case COLL_INT8:
      return load<std::int8_t>(element);
    case COLL_UINT8:
      return load<std::uint8_t>(element);
    case COLL_INT32:
      return load<std::int32_t>(element);
    case COLL_UINT32:
      return load<std::uint32_t>(element);
    case COLL_INT64:
      return static_cast<long double>(load<std::int64_t>(element));
    case COLL_UINT64:
      return static_cast<long double>(load<std::uint64_t>(element));
    case COLL_FLOAT16:
      return unpack(kHalf, load<std::uint16_t>(element));
    case COLL_BFLOAT16:
      return unpack(kBfloat, load<std::uint16_t>(element));
    case COLL_FLOAT32:
      return static_cast<long double>(load<float>(element));
    case COLL_FLOAT64:
      return static_cast<long double>(load<double>(element));
    case COLL_FLOAT8_E4M3:
      return unpack(kE4m3, load<std::uint8_t>(element));
    case COLL_FLOAT8_E5M2:
      return unpack(kE5m2, load<std::uint8_t>(element));
    default:
      break;
  }
  return std::numeric_limits<long double>::quiet_NaN();
}

bool is_float(coll_dtype_t type) {
  return type >= COLL_FLOAT16 && type <= COLL_FLOAT8_E5M2;
}
bool is_signed(coll_dtype_t type) {
  return is_float(type) || is_complex(type) || type == COLL_INT8 || type == COLL_INT16 ||
         type == COLL_INT32 || type == COLL_INT64;
}
bool is_complex(coll_dtype_t type) {
  return type == COLL_COMPLEX64 || type == COLL_COMPLEX128;
}

}  // namespace perf
