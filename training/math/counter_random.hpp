// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a function of where they are used, and need no state: Philox4x32-10
// (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox).
//
//   ten times, on a counter of four words c and a key of two words k:
//   a = 0xD2511F53 c0, b = 0xCD9E8D57 c2, c = (high(b) ^ c1 ^ k0, low(b), high(a) ^ c3 ^ k1,
//   low(a)) k += (0x9E3779B9, 0xBB67AE85)
#pragma once
#include <array>
#include <cstdint>

namespace training {

using RandomWords = std::array<std::uint32_t, 4>;

constexpr std::uint32_t low_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high_word(std::uint64_t value) {
  return low_word(value >> 32U);
}

constexpr RandomWords philox(RandomWords c, std::uint64_t key) {
  std::uint32_t k0 = low_word(key), k1 = high_word(key);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0],
                        b = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {high_word(b) ^ c[1] ^ k0, low_word(b), high_word(a) ^ c[3] ^ k1, low_word(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

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
