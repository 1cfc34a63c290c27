// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a function of where they are used, and need no state.
#pragma once
#include "philox.hpp"

namespace training {

/// Numbers of one purpose. Two purposes of the same seed have nothing in common.
class CounterRandom {
 public:
  constexpr CounterRandom(std::uint64_t seed, std::uint32_t purpose) {
    const RandomWords words = philox({purpose, 0, 0, 0}, seed);
    key_ = std::uint64_t{words[1]} << 32U | words[0];
  }
  constexpr RandomWords operator()(std::uint64_t number, std::uint32_t i, std::uint32_t j) const {
    return philox({low_word(number), high_word(number), i, j}, key_);
  }

 private:
  std::uint64_t key_ = 0;
};

/// A number below `count`, which is at most 2^32: (random * count) / 2^64. The chances of two
/// numbers differ by 2^-32 of a chance at most.
constexpr std::uint64_t below(std::uint64_t count, std::uint32_t high, std::uint32_t low) {
  return (high * count + (low * count >> 32U)) >> 32U;
}

}  // namespace training
