// SPDX-License-Identifier: Apache-2.0
// Divides by the polynomial with a table of the remainders of all bytes.
#include "crc32c.hpp"

#include <array>

namespace training {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // of RFC 3720, its lowest power first

constexpr std::array<std::uint32_t, 256> remainders() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}
constexpr auto kRemainders = remainders();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = ~0U;
  for (const char byte : bytes)
    rest = (rest >> 8U) ^ kRemainders[(rest ^ static_cast<unsigned char>(byte)) & 0xffU];
  return ~rest;
}

}  // namespace training
