// SPDX-License-Identifier: Apache-2.0
// perf/: tools that measure the library through its public headers. This file: elements of every
// type to and from long double.
#include "coll_perf_element.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace perf {
namespace {

/// A 16-bit float: sign, exponent, `mantissa` bits.
struct SmallFloat {
  int mantissa;
  int bias;
};
constexpr SmallFloat kHalf{10, 15};
constexpr SmallFloat kBfloat{7, 127};

std::uint16_t pack(SmallFloat f, long double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const long infinity = ((2L * f.bias) + 1) << f.mantissa;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1L << (f.mantissa - 1)));
  const long double size = std::fabs(value);
  long bits = infinity;
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
    bits = std::min(bits, infinity);
  }
  return static_cast<std::uint16_t>(sign | bits);
}

long double unpack(SmallFloat f, std::uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> f.mantissa;
  const int digits = bits & ((1 << f.mantissa) - 1);
  long double size = 0;
  if (exponent == 2 * f.bias + 1)
    size = digits != 0 ? std::numeric_limits<long double>::quiet_NaN()
                       : std::numeric_limits<long double>::infinity();
  else if (exponent == 0)
    size = std::ldexp(static_cast<long double>(digits), 1 - f.bias - f.mantissa);
  else
    size = std::ldexp(static_cast<long double>(digits + (1 << f.mantissa)),
                      exponent - f.bias - f.mantissa);
  return (bits & 0x8000) != 0 ? -size : size;
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

void encode(coll_dtype_t type, long double value, void* element) {
  switch (type) {
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
    default:
      break;
  }
}

long double decode(coll_dtype_t type, const void* element) {
  switch (type) {
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
    default:
      break;
  }
  return std::numeric_limits<long double>::quiet_NaN();
}

bool is_float(coll_dtype_t type) {
  return type >= COLL_FLOAT16 && type <= COLL_FLOAT64;
}
bool is_signed(coll_dtype_t type) {
  return is_float(type) || type == COLL_INT8 || type == COLL_INT32 || type == COLL_INT64;
}

}  // namespace perf
