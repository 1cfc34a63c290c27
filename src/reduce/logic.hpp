// SPDX-License-Identifier: Apache-2.0
// Bitwise and logical operations on one register.
//
// A bitwise pass serves the elements of every width, a logical pass all types of its width: what
// tells them apart is a number that the pass is made with. Only kernels.cpp includes this; see
// vector.hpp about the unnamed namespace.
#pragma once
#include "base/types.hpp"
#include "reduce/vector.hpp"

namespace coll::reduce {
namespace {

template <ReduceOp op>
struct BitwisePass {
  using Element = std::uint8_t;
  explicit BitwisePass(size_t) {}

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    const auto a = load<step>(at_a), b = load<step>(at_b);
    if constexpr (op == ReduceOp::band) return a & b;
    if constexpr (op == ReduceOp::bor) return a | b;
    if constexpr (op == ReduceOp::bxor) return a ^ b;
  }
};

/// `digits` is how many bits a float has after the point, and 0 for an integer. A float is false if
/// it is a zero of either sign, so NaN is true, as in C.
template <ReduceOp op, class Bits>
struct LogicalPass {
  using Element = Bits;
  Bits magnitude, one;
  explicit LogicalPass(size_t digits) : magnitude(static_cast<Bits>(-1)), one(1) {
    if (digits == 0) return;
    magnitude = static_cast<Bits>(magnitude >> 1);
    // 1.0 has the middle exponent: all its bits but the first.
    one = static_cast<Bits>(magnitude >> (digits + 1) << digits);
  }

  template <size_t step>
  COLL_INLINE auto apply(const std::byte* at_a, const std::byte* at_b) const {
    constexpr size_t kBytes = register_of(step);
    using V = Vector<Bits, kBytes>;
    const V a = as<V>(load<step>(at_a)) & magnitude, b = as<V>(load<step>(at_b)) & magnitude;
    const V unit = V{} + one;
    if constexpr (op == ReduceOp::land) return as<Raw<kBytes>>(as<V>((a != 0) & (b != 0)) & unit);
    if constexpr (op == ReduceOp::lor) return as<Raw<kBytes>>(as<V>((a | b) != 0) & unit);
    if constexpr (op == ReduceOp::lxor) return as<Raw<kBytes>>(as<V>((a != 0) ^ (b != 0)) & unit);
  }
};

}  // namespace
}  // namespace coll::reduce
