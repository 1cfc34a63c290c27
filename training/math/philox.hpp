// SPDX-License-Identifier: Apache-2.0
// Random numbers as a function of a counter: Philox4x32-10 (Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3", section 3.3). Any rank can make any of them alone, in any order.
//
// Ten rounds, each with (h0, l0) = 0xD2511F53 c0 and (h1, l1) = 0xCD9E8D57 c2 as products of 64
// bits:
//   c = (h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0), and from round to round k += (0x9E3779B9,
//   0xBB67AE85).
#pragma once
#include <array>
#include <cstdint>

namespace training {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

}  // namespace training
