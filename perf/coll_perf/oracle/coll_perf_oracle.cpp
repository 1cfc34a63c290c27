// SPDX-License-Identifier: Apache-2.0
// The oracle's values and comparisons.
#include "coll_perf/oracle/coll_perf_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "coll_perf/oracle/coll_perf_element.hpp"

namespace perf {
namespace {

constexpr std::size_t kPeriod = 4099;  // prime: no chunk size divides into it

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The largest integer up to which a sum is exact.
long double exact_limit(coll_dtype_t type) {
  switch (type) {
    case COLL_FLOAT8_E5M2:
      return 8;
    case COLL_FLOAT8_E4M3:
      return 16;
    case COLL_INT8:
      return 127;
    case COLL_UINT8:
      return 255;
    case COLL_INT16:
      return 32767;
    case COLL_UINT16:
      return 65535;
    case COLL_BOOL:
      return 1;
    case COLL_BFLOAT16:
      return 256;
    case COLL_FLOAT16:
      return 2048;
    case COLL_FLOAT32:
    case COLL_COMPLEX64:
      return 16777216;
    default:
      return 2147483647;
  }
}

bool is_bitwise(coll_op_t op) {
  return op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR;
}

/// What an operation does to bits, or to truth values.
enum class Bits { no, all_of, any_of, odd };
Bits bits_of(coll_dtype_t type, coll_op_t op) {
  if (op == COLL_BAND || op == COLL_LAND) return Bits::all_of;
  if (op == COLL_BOR || op == COLL_LOR) return Bits::any_of;
  if (op == COLL_BXOR || op == COLL_LXOR) return Bits::odd;
  if (type != COLL_BOOL) return Bits::no;
  return op == COLL_PROD || op == COLL_MIN ? Bits::all_of : Bits::any_of;
}

/// The walk over a buffer in runs that lie within one period: f(source, offset, elements, place).
template <class F>
void each_run(const std::vector<Segment>& segments, F f) {
  std::size_t at = 0;
  for (const Segment& segment : segments)
    for (std::size_t done = 0; done < segment.count;) {
      const std::size_t offset = (segment.first + done) % kPeriod;
      const std::size_t run = std::min(segment.count - done, kPeriod - offset);
      f(segment.source, offset, run, at);
      done += run;
      at += run;
    }
}

}  // namespace

std::size_t elements(const std::vector<Segment>& segments) {
  std::size_t sum = 0;
  for (const Segment& segment : segments) sum += segment.count;
  return sum;
}

std::vector<Segment> sent(Operation operation, int rank, int ranks, int root, std::size_t count) {
  const std::size_t blocks = static_cast<std::size_t>(ranks);
  switch (equal_blocks(operation)) {
    case Operation::broadcast:
      return rank == root ? std::vector<Segment>{{rank, 0, count}} : std::vector<Segment>{};
    case Operation::scatter:
      return rank == root ? std::vector<Segment>{{rank, 0, count * blocks}}
                          : std::vector<Segment>{};
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return {{rank, 0, count * blocks}};
    case Operation::sendrecv:
      if ((rank ^ 1) >= ranks) return {};
      break;
    case Operation::barrier:
      return {};
    default:
      break;
  }
  return {{rank, 0, count}};
}

std::vector<Segment> received(Operation operation, int rank, int ranks, int root,
                              std::size_t count) {
  const std::size_t mine = static_cast<std::size_t>(rank) * count;
  std::vector<Segment> blocks;
  switch (equal_blocks(operation)) {
    case Operation::all_reduce:
      return {{kReduced, 0, count}};
    case Operation::reduce:
      if (rank == root) blocks.push_back({kReduced, 0, count});
      return blocks;
    case Operation::broadcast:
      return {{root, 0, count}};
    case Operation::reduce_scatter:
      return {{kReduced, mine, count}};
    case Operation::scatter:
      return {{root, mine, count}};
    case Operation::gather:
      if (rank != root) return blocks;
      [[fallthrough]];
    case Operation::all_gather:
      for (int r = 0; r < ranks; ++r) blocks.push_back({r, 0, count});
      return blocks;
    case Operation::all_to_all:
      for (int r = 0; r < ranks; ++r) blocks.push_back({r, mine, count});
      return blocks;
    case Operation::sendrecv:
      if ((rank ^ 1) < ranks) blocks.push_back({rank ^ 1, 0, count});
      return blocks;
    case Operation::sendrecv_ring:
      blocks.push_back({(rank + ranks - 1) % ranks, 0, count});
      return blocks;
    default:
      break;
  }
  return blocks;
}

Oracle::Oracle(coll_dtype_t type, coll_op_t op, bool reduces, int ranks, std::uint64_t seed)
    : type_(type),
      op_(op),
      reduces_(reduces),
      ranks_(ranks),
      seed_(seed),
      width_(dtype_bytes(type)) {
  // Up to 64 ranks (4 in a product of small integers, 12 of powers of two, 8 where the exponent is
  // short) give a value of their own to an element, the others what changes nothing; which ones
  // rotates with the index.
  if (op == COLL_PROD)
    active_ = std::min(ranks, type == COLL_FLOAT8_E4M3             ? 8
                              : is_float(type) || is_complex(type) ? 12
                                                                   : 4);
  else
    active_ = std::min(ranks, static_cast<int>(std::min(exact_limit(type), 64.0L)));
  limit_ = std::min(std::floor(exact_limit(type) / static_cast<long double>(active_)),
                    static_cast<long double>(1000));
}

long double Oracle::bits_value(std::uint64_t dice) const {
  const std::uint64_t digits = dice >> 8;
  const bool decides = digits % static_cast<std::uint64_t>(ranks_) == 0;
  const Bits bits = bits_of(type_, op_);
  if (!is_bitwise(op_) || type_ == COLL_BOOL) {
    const long double truth = type_ == COLL_BOOL ? 1 : static_cast<long double>(dice % 3 + 1);
    if (bits == Bits::odd) return dice % 2 == 0 ? 0 : truth;
    return decides == (bits == Bits::any_of) ? truth : 0;
  }
  const std::uint64_t digits_of_type = 8 * width_ - 1;  // 2^64 - 1 would not do for an int64
  const std::int64_t most = static_cast<std::int64_t>((std::uint64_t{1} << digits_of_type) - 1);
  const std::int64_t all = is_signed(type_) ? -1 : most;
  const std::int64_t bit = std::int64_t{1} << mix(dice) % digits_of_type;
  if (bits == Bits::odd)
    return static_cast<long double>(static_cast<std::int64_t>(dice >> 1) & most);
  if (bits == Bits::any_of) return static_cast<long double>(decides ? bit : 0);
  return static_cast<long double>(decides ? all & ~bit : all);
}

long double Oracle::part_value(std::uint64_t dice, bool active) const {
  const bool negative = is_signed(type_) && (dice & 1) != 0;
  const std::uint64_t digits = dice >> 8;
  long double size = 0;
  if (!reduces_ || op_ == COLL_MIN || op_ == COLL_MAX) {
    // Nothing is added up, so values may be as large as the type holds exactly.
    const std::uint64_t bits = type_ == COLL_FLOAT64 || width_ == 8 ? 53 : 31;
    const auto range = width_ >= 4 && exact_limit(type_) == exact_limit(COLL_INT32)
                           ? static_cast<long double>((std::uint64_t{1} << bits) - 1)
                           : exact_limit(type_);
    size = std::fmod(static_cast<long double>(digits), range + 1);
  } else if (!active) {
    return op_ == COLL_PROD ? 1 : 0;
  } else if (op_ != COLL_PROD) {
    size = limit_ > 1 ? std::fmod(static_cast<long double>(digits), limit_ + 1) : 1;
  } else if (is_float(type_) || is_complex(type_)) {
    size = std::ldexp(1.0L, static_cast<int>(digits % 3) - 1);
  } else {
    size = static_cast<long double>(digits % 3 + 1);
  }
  return negative && size != 0 ? -size : size;
}

Value Oracle::value(int rank, std::size_t index) const {
  const auto i = static_cast<std::uint64_t>(index % kPeriod);
  const auto r = static_cast<std::uint64_t>(rank);
  const std::uint64_t dice = mix(mix(seed_ * 0x9e3779b97f4a7c15U + r) ^ (i + 1));
  if (reduces_ && bits_of(type_, op_) != Bits::no) return bits_value(dice);
  const bool active =
      (r + i) % static_cast<std::uint64_t>(ranks_) < static_cast<std::uint64_t>(active_);
  const long double real = part_value(dice, active);
  if (!is_complex(type_)) return real;
  if (!reduces_ || op_ != COLL_PROD) return {real, part_value(mix(dice), active)};
  return active && mix(dice) % 2 == 0 ? Value(0, real) : Value(real);  // powers of two, turned
}

Value Oracle::combine(Value a, Value b) const {
  const long double x = a.real(), y = b.real();
  const Bits bits = bits_of(type_, op_);
  if (is_bitwise(op_)) {
    const auto i = static_cast<std::int64_t>(x), j = static_cast<std::int64_t>(y);
    return static_cast<long double>(bits == Bits::all_of   ? i & j
                                    : bits == Bits::any_of ? i | j
                                                           : i ^ j);
  }
  const bool p = x != 0, q = y != 0;
  if (bits == Bits::all_of) return p && q ? 1 : 0;
  if (bits == Bits::any_of) return p || q ? 1 : 0;
  if (bits == Bits::odd) return p != q ? 1 : 0;
  if (op_ == COLL_PROD) return a * b;
  if (op_ == COLL_MIN) return std::min(x, y);
  if (op_ == COLL_MAX) return std::max(x, y);
  return a + b;
}

Value Oracle::reduced(std::size_t index) const {
  Value total = value(0, index);
  for (int rank = 1; rank < ranks_; ++rank) total = combine(total, value(rank, index));
  if (op_ != COLL_AVG) return total;
  const long double ranks = ranks_;
  if (!is_float(type_) && !is_complex(type_)) return std::trunc(total.real() / ranks);
  // The sum is an exact small integer; a double's quotient rounds once, to any narrower type too.
  const auto quotient = [&](long double sum) { return static_cast<double>(sum) / ranks_; };
  return {quotient(total.real()), quotient(total.imag())};
}

const std::vector<unsigned char>& Oracle::table(int source) {
  auto [place, fresh] = tables_.try_emplace(source);
  if (fresh) {
    place->second.resize(kPeriod * width_);
    for (std::size_t i = 0; i < kPeriod; ++i)
      encode(type_, source == kReduced ? reduced(i) : value(source, i),
             place->second.data() + i * width_);
  }
  return place->second;
}

void Oracle::fill(const std::vector<Segment>& segments, void* buffer) {
  auto* bytes = static_cast<unsigned char*>(buffer);
  each_run(segments, [&](int source, std::size_t offset, std::size_t run, std::size_t at) {
    std::memcpy(bytes + at * width_, table(source).data() + offset * width_, run * width_);
  });
}

void Oracle::spoil(const std::vector<Segment>& segments, void* buffer) {
  fill(segments, buffer);
  auto* bytes = static_cast<unsigned char*>(buffer);
  const std::size_t size = elements(segments) * width_;
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(~bytes[i]);
}

std::uint64_t Oracle::wrong(const std::vector<Segment>& segments, const void* buffer) {
  const auto* bytes = static_cast<const unsigned char*>(buffer);
  std::uint64_t count = 0;
  each_run(segments, [&](int source, std::size_t offset, std::size_t run, std::size_t at) {
    const unsigned char* got = bytes + at * width_;
    const unsigned char* want = table(source).data() + offset * width_;
    if (std::memcmp(got, want, run * width_) == 0) return;
    for (std::size_t i = 0; i < run * width_; i += width_)  // by value: -0 is 0, NaN is nothing
      if (!(decode(type_, got + i) == decode(type_, want + i))) ++count;
  });
  return count;
}

}  // namespace perf
