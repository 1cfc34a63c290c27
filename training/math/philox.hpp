// SPDX-License-Identifier: Apache-2.0
// Random numbers as a function of a counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011,
// "Parallel random numbers: as easy as 1, 2, 3", section 3.3). Any rank makes any of them alone.
//
// Ten times, on a counter of four words c and a key of two words k:
//   a = 0xD2511F53 c0, b = 0xCD9E8D57 c2,
//   c = (high(b) ^ c1 ^ k0, low(b), high(a) ^ c3 ^ k1, low(a)), k += (0x9E3779B9, 0xBB67AE85)
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

}  // namespace training
