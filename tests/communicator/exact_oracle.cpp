// SPDX-License-Identifier: Apache-2.0
// Inputs whose results are exact in every dtype, and the results.
#include "exact_oracle.hpp"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

namespace coll::testing {
namespace {

/// An element of any type; the imaginary part is 0 but for complex numbers.
using Value = std::complex<double>;

/// The bits of an 8-bit float with `digits` bits after the point: normal numbers and zero are all
/// we use.
std::uint8_t float8_bits(double value, int digits, int bias) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (value == 0) return sign;
  const int exponent = std::ilogb(value);
  const int tail = static_cast<int>(std::ldexp(std::fabs(value), digits - exponent));
  return static_cast<std::uint8_t>(sign | (((exponent + bias - 1) << digits) + tail));
}

/// An element as bytes of its dtype. Only for values that the dtype holds exactly.
void store_exact(DataType type, Value element, std::byte* to) {
  const auto put = [&](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  const double value = element.real();
  switch (type) {
    case DataType::boolean:
      return put(static_cast<std::uint8_t>(value));
    case DataType::complex64:
      return put(static_cast<std::complex<float>>(element));
    case DataType::complex128:
      return put(element);
    case DataType::int16:
      return put(static_cast<std::int16_t>(value));
    case DataType::uint16:
      return put(static_cast<std::uint16_t>(value));
    case DataType::int8:
      return put(static_cast<std::int8_t>(value));
    case DataType::uint8:
      return put(static_cast<std::uint8_t>(value));
    case DataType::int32:
      return put(static_cast<std::int32_t>(value));
    case DataType::uint32:
      return put(static_cast<std::uint32_t>(value));
    case DataType::int64:
      return put(static_cast<std::int64_t>(value));
    case DataType::uint64:
      return put(static_cast<std::uint64_t>(value));
    case DataType::float32:
      return put(static_cast<float>(value));
    case DataType::float64:
      return put(value);
    case DataType::bfloat16:
      return put(static_cast<std::uint16_t>(
          std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DataType::float16: {  // normal numbers and zero are all we use
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      const std::uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
      return put(
          static_cast<std::uint16_t>(rest == 0 ? sign : sign | ((rest >> 13) - (112U << 10))));
    }
    case DataType::float8_e4m3:
      return put(float8_bits(value, 3, 7));
    case DataType::float8_e5m2:
      return put(float8_bits(value, 2, 15));
  }
}

/// Up to which whole number a dtype holds all of them, where that is not far enough for the values
/// below.
double short_limit(DataType type) {
  return type == DataType::float8_e4m3 ? 16 : type == DataType::float8_e5m2 ? 8 : 0;
}

/// The same for the 8-bit floats: no choice of ranks may add up to more than their limit.
double short_input_value(double limit, ReduceOp op, Rank ranks, Rank rank, std::uint64_t index,
                         std::uint64_t hash) {
  if (op == ReduceOp::avg) {
    // One or nothing on average, and a unit that one rank of a pair has more and the other less.
    const double average = ranks <= 8 ? static_cast<double>(index % 2) : 0;
    const bool paired = (rank ^ 1) < ranks && index % 3 != 0;
    return average + (!paired ? 0.0 : rank % 2 == 0 ? 1.0 : -1.0);
  }
  const Rank active = ranks < 8 ? ranks : 8;
  if ((static_cast<std::uint64_t>(rank) + index) % static_cast<std::uint64_t>(ranks) >=
      static_cast<std::uint64_t>(active))
    return 0;
  const auto most = static_cast<std::uint64_t>(limit / active);
  return static_cast<double>(hash % (2 * most + 1)) - static_cast<double>(most);
}

bool is_and(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::land;
}
bool is_logical(ReduceOp op) {
  return op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor;
}

/// For operations on bits and truth values. An and has few zeros, an or few ones, so that one rank
/// decides most elements: its loss shows.
double bits_value(DataType type, ReduceOp op, bool is_signed, std::uint64_t hash) {
  const auto bit = static_cast<double>(1 << hash % 3), none = 0.0;
  const bool rare = hash / 3 % 16 == 0;
  if (type == DataType::boolean) {
    if (is_and(op) || op == ReduceOp::prod || op == ReduceOp::min) return rare ? 0 : 1;
    if (op == ReduceOp::bxor || op == ReduceOp::lxor) return hash % 2 == 0 ? 0 : 1;
    return rare ? 1 : 0;
  }
  if (is_logical(op)) return is_and(op) != rare ? bit : none;  // an 8-bit float holds 1, 2, 4
  if (op == ReduceOp::bxor) return static_cast<double>(hash % 128) - (is_signed ? 64 : 0);
  const double all = is_signed ? -1 : 255;
  if (op == ReduceOp::band) return rare ? all - bit : all;
  return rare ? bit : none;
}

/// Rank r's i-th input element: small integers chosen so that the result over up to 16 ranks in any
/// order is exact in every dtype; neighbours, ranks and blocks differ, so that a misplaced element
/// shows.
double real_value(DataType type, ReduceOp op, Rank ranks, Rank rank, std::uint64_t index,
                  std::uint64_t seed) {
  std::uint64_t hash =
      (index * 0x9e3779b97f4a7c15ULL) ^
      (seed + static_cast<std::uint64_t>(rank) * std::uint64_t{0x632be59bd9b4e019U});
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9ULL;
  hash ^= hash >> 32;
  const bool is_signed = type != DataType::uint8 && type != DataType::uint16 &&
                         type != DataType::uint32 && type != DataType::uint64;
  if (type == DataType::boolean || op >= ReduceOp::band)
    return bits_value(type, op, is_signed, hash);
  if (short_limit(type) != 0 && op != ReduceOp::prod)
    return short_input_value(short_limit(type), op, ranks, rank, index, hash);
  switch (op) {
    case ReduceOp::prod: {
      // At most six factors of two: 64 fits int8 and every float.
      const bool two = hash % 3 == 0 && rank < 6;
      return (two ? 2.0 : 1.0) * (is_signed && hash % 5 == 0 ? -1.0 : 1.0);
    }
    case ReduceOp::avg: {
      // Multiples of the number of ranks: the average is whole.
      const double unit = static_cast<double>(hash % 2);
      return unit * ranks * (ranks > 8 ? 0.0 : 1.0) +
             (ranks > 8 ? static_cast<double>(index % 7) : 0.0);
    }
    default: {
      const double small = static_cast<double>(hash % 8);  // 16 ranks: sums below 128
      return is_signed ? small - 3 : small;
    }
  }
}

/// A factor of a complex product: 2 + i, turned by quarters. No power of it lies on an axis, so no
/// part of a product is a zero, whose sign would depend on the order.
Value complex_factor(Rank rank, std::uint64_t index, std::uint64_t seed) {
  const auto dice = static_cast<std::uint64_t>(
      real_value(DataType::int64, ReduceOp::bxor, 1, rank, index, seed) + 64);
  constexpr Value kTurned[] = {{2, 1}, {-1, 2}, {-2, -1}, {1, -2}};
  return kTurned[dice % 4];
}

Value input_value(DataType type, ReduceOp op, Rank ranks, Rank rank, std::uint64_t index,
                  std::uint64_t seed) {
  if (type != DataType::complex64 && type != DataType::complex128)
    return real_value(type, op, ranks, rank, index, seed);
  if (op == ReduceOp::prod) return complex_factor(rank, index, seed);
  return {real_value(type, op, ranks, rank, 2 * index, seed),
          real_value(type, op, ranks, rank, 2 * index + 1, seed)};
}

Value combine(DataType type, ReduceOp op, Value a, Value b) {
  const double x = a.real(), y = b.real();
  const bool truth = type == DataType::boolean;
  switch (op) {
    case ReduceOp::sum:
      return truth ? std::fmax(x, y) : a + b;
    case ReduceOp::avg:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::min:
      return std::fmin(x, y);
    case ReduceOp::max:
      return std::fmax(x, y);
    case ReduceOp::band:
      return static_cast<double>(static_cast<int>(x) & static_cast<int>(y));
    case ReduceOp::bor:
      return static_cast<double>(static_cast<int>(x) | static_cast<int>(y));
    case ReduceOp::bxor:
      return static_cast<double>(static_cast<int>(x) ^ static_cast<int>(y));
    case ReduceOp::land:
      return x != 0 && y != 0 ? 1 : 0;
    case ReduceOp::lor:
      return x != 0 || y != 0 ? 1 : 0;
    case ReduceOp::lxor:
      return (x != 0) != (y != 0) ? 1 : 0;
    case ReduceOp::own:
    case ReduceOp::own_in_order:
      break;  // this oracle does not know them
  }
  return 0;
}

/// What all ranks' i-th inputs come to.
Value reduced_value(DataType type, ReduceOp op, Rank ranks, std::uint64_t index,
                    std::uint64_t seed) {
  Value value = input_value(type, op, ranks, 0, index, seed);
  for (Rank rank = 1; rank < ranks; ++rank) {
    value = combine(type, op, value, input_value(type, op, ranks, rank, index, seed));
  }
  return op == ReduceOp::avg ? value / static_cast<double>(ranks) : value;
}

}  // namespace

std::vector<std::byte> make_input(DataType type, ReduceOp op, Rank ranks, Rank rank,
                                  std::uint64_t elements, std::uint64_t seed) {
  std::vector<std::byte> bytes(elements * size_of(type));
  for (std::uint64_t i = 0; i < elements; ++i) {
    store_exact(type, input_value(type, op, ranks, rank, i, seed),
                bytes.data() + i * size_of(type));
  }
  return bytes;
}

std::vector<std::byte> expected_output(Collective collective, DataType type, ReduceOp op,
                                       Rank ranks, Rank root, Rank rank, std::uint64_t count,
                                       std::uint64_t seed) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> bytes;
  const auto add = [&](Value value) {
    bytes.resize(bytes.size() + size);
    store_exact(type, value, bytes.data() + bytes.size() - size);
  };
  const auto add_input = [&](Rank from, std::uint64_t begin) {
    for (std::uint64_t i = 0; i < count; ++i)
      add(input_value(type, op, ranks, from, begin + i, seed));
  };
  const auto mine = static_cast<std::uint64_t>(rank) * count;
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      if (collective == Collective::reduce && rank != root) break;
      for (std::uint64_t i = 0; i < count; ++i) add(reduced_value(type, op, ranks, i, seed));
      break;
    case Collective::reduce_scatter:
      for (std::uint64_t i = 0; i < count; ++i) add(reduced_value(type, op, ranks, mine + i, seed));
      break;
    case Collective::broadcast:
      add_input(root, 0);
      break;
    case Collective::scatter:
      add_input(root, mine);
      break;
    case Collective::gather:
      if (rank != root) break;
      [[fallthrough]];
    case Collective::all_gather:
      for (Rank from = 0; from < ranks; ++from) add_input(from, 0);
      break;
    case Collective::all_to_all:
      for (Rank from = 0; from < ranks; ++from) add_input(from, mine);
      break;
    case Collective::recv:
      add_input(root, 0);
      break;
    case Collective::send:
    case Collective::barrier:
      break;
  }
  return bytes;
}

}  // namespace coll::testing
