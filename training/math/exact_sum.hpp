// SPDX-License-Identifier: Apache-2.0
// A sum of doubles without rounding, and so the same in every order: for norms of gradients that
// must not depend on which rank owns what (Kulisch 2013, "Computer arithmetic and validity",
// section 8: the long accumulator).
//
// A double is an integer times a power of two. The accumulator is a fixed-point number of 2,144
// bits in digits of 32, each kept in 64 bits: up to 2^31 numbers and ranks add without a carry.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace training {

class ExactSum {
 public:
  /// Infinities and NaN make the sum NaN.
  void add(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t exponent = (bits >> 52U) & 0x7ffU, fraction = bits & ((1ULL << 52U) - 1);
    if (exponent == 0x7ff) {
      ++all_[kDigits];
      return;
    }
    // |value| = integer * 2^(place - kBias), and denormals have the exponent of the next numbers.
    const std::uint64_t integer = exponent == 0 ? fraction : fraction | (1ULL << 52U);
    const std::uint64_t place = exponent == 0 ? 0 : exponent - 1;
    const Wide shifted = static_cast<Wide>(integer) << (place % 32);
    const std::int64_t sign = std::signbit(value) ? -1 : 1;
    std::int64_t* digit = all_.data() + place / 32;
    digit[0] += sign * static_cast<std::int64_t>(shifted & kLow);
    digit[1] += sign * static_cast<std::int64_t>((shifted >> 32U) & kLow);
    digit[2] += sign * static_cast<std::int64_t>(shifted >> 64U);
  }

  /// Its digits: to add sums, add these one by one.
  [[nodiscard]] std::span<std::int64_t> digits() { return all_; }
  [[nodiscard]] std::span<const std::int64_t> digits() const { return all_; }

  /// The sum, rounded once: to the nearest double, ties to the even one.
  [[nodiscard]] double value() const {
    if (all_[kDigits] != 0) return std::numeric_limits<double>::quiet_NaN();
    std::array<std::uint32_t, kDigits> digits{};
    if (carry(1, digits) >= 0) return rounded(digits);
    carry(-1, digits);
    return -rounded(digits);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int kBias = 1074;  ///< bit 0 stands for 2^-1074, the smallest double
  static constexpr std::size_t kDigits = 67;
  static constexpr std::uint64_t kLow = 0xffffffff;

  /// The digits of sign * sum; returns what is carried out of them: -1 if that is negative.
  std::int64_t carry(std::int64_t sign, std::array<std::uint32_t, kDigits>& digits) const {
    std::int64_t carried = 0;
    for (std::size_t i = 0; i < kDigits; ++i) {
      carried += sign * all_[i];
      digits[i] = static_cast<std::uint32_t>(carried & 0xffffffff);
      carried >>= 32;
    }
    return carried;
  }

  /// Three digits hold more than 64 bits of the number; of the rest it matters only whether it is
  /// 0.
  static double rounded(const std::array<std::uint32_t, kDigits>& digits) {
    std::size_t top = kDigits - 1;
    while (top > 2 && digits[top] == 0) --top;
    Wide leading = (static_cast<Wide>(digits[top]) << 64U) |
                   (static_cast<Wide>(digits[top - 1]) << 32U) | digits[top - 2];
    for (std::size_t i = 0; i + 2 < top; ++i) leading |= digits[i] != 0 ? 1U : 0U;
    return std::ldexp(static_cast<double>(leading), static_cast<int>(32 * (top - 2)) - kBias);
  }

  std::array<std::int64_t, kDigits + 1> all_{};  ///< and how many numbers were not finite
};

}  // namespace training
