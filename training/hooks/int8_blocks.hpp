// SPDX-License-Identifier: Apache-2.0
// Numbers as integers of 8 bits, in blocks that share a scale (Dettmers et al. 2022, arXiv
// 2110.02861, section 2.1, has blocks for the same reason: one large number costs only its block):
//
//   scale = max |x| / 127        q = round(x / scale), in -127 … 127        x' = scale q
//
// Coded numbers: all scales, then all integers: 1 + 4/256 bytes for each number. |x - x'| is at
// most scale / 2. A block with a number that is not finite is decoded as NaN.
#pragma once
#include <cstddef>
#include <span>

namespace training::int8_blocks {

inline constexpr std::size_t kBlock = 256;

constexpr std::size_t blocks_of(std::size_t count) {
  return (count + kBlock - 1) / kBlock;
}
constexpr std::size_t bytes_of(std::size_t count) {
  return count + sizeof(float) * blocks_of(count);
}

/// Writes bytes_of(numbers.size()) bytes; what is lost, x - x', takes the place of the numbers.
/// `code` is aligned as a float.
void encode(std::span<float> numbers, std::byte* code);
void decode(const std::byte* code, std::span<float> numbers);
/// sums += x'.
void add(const std::byte* code, std::span<float> sums);

}  // namespace training::int8_blocks
