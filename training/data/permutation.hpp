// SPDX-License-Identifier: Apache-2.0
// The order of examples in an epoch, computed for each place alone: nothing is shuffled, and
// nothing but the seed is remembered.
//
//   ten times: (left, right) -> (right, left ^ f(round, right)); again while the result is >= count
//
// This Feistel network permutes the numbers of 2h bits, whatever its function f is. Repeating it
// for numbers from `count` on (cycle walking) permutes those below `count`. As 2^2h <= 4 count,
// that takes four turns or fewer on average. With fewer rounds, orders of few numbers are not about
// equally likely.
//
// Black, Rogaway 2002, "Ciphers with arbitrary finite domains" (CT-RSA), methods 2 and 3.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "../math/counter_random.hpp"

namespace training {

class Permutation {
 public:
  /// Of the numbers below `count`, which is from 1 to 2^31. Each `number` has an order of its own.
  Permutation(const CounterRandom& random, std::uint64_t number, std::uint32_t count)
      : random_(random),
        number_(number),
        count_(count),
        half_bits_(std::max(1U, static_cast<unsigned>(std::bit_width(count - 1) + 1) / 2)) {}

  [[nodiscard]] std::uint32_t operator()(std::uint32_t index) const {
    do index = network(index);
    while (index >= count_);
    return index;
  }

 private:
  [[nodiscard]] std::uint32_t network(std::uint32_t index) const {
    const std::uint32_t mask = (1U << half_bits_) - 1;
    std::uint32_t left = index >> half_bits_, right = index & mask;
    for (std::uint32_t round = 0; round < 10; ++round) {
      const std::uint32_t mixed = left ^ (random_(number_, round, right)[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  CounterRandom random_;
  std::uint64_t number_;
  std::uint32_t count_;
  unsigned half_bits_;
};

}  // namespace training
