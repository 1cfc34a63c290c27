// SPDX-License-Identifier: Apache-2.0
// A sum of doubles without rounding, and so the same in every order: for norms of gradients that
// must not depend on which rank owns what (Kulisch 2013, "Computer arithmetic and validity",
// section 8: the long accumulator).
//
// A double is an integer times a power of two. The accumulator is a fixed-point number of 2,176
// bits in digits of 32, each kept in 64 bits: up to 2^31 numbers and ranks add without a carry.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace training {

class ExactSum {
 public:
  /// Infinities and NaN make the sum NaN.
  void add(double value) {
    if (!std::isfinite(value)) {
      ++all_[kDigits];
      return;
    }
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent
    const auto integer = static_cast<std::int64_t>(std::ldexp(fraction, 53));
    const auto bit = static_cast<std::size_t>(exponent - 53 + kBias);
    const auto shifted = static_cast<Wide>(integer) << (bit % 32);
    const std::size_t digit = bit / 32;
    all_[digit] += static_cast<std::int64_t>(shifted & 0xffffffff);
    all_[digit + 1] += static_cast<std::int64_t>((shifted >> 32) & 0xffffffff);
    all_[digit + 2] += static_cast<std::int64_t>(shifted >> 64);
  }

  /// Its digits: to add sums, add these one by one.
  [[nodiscard]] std::span<std::int64_t> digits() { return all_; }
  [[nodiscard]] std::span<const std::int64_t> digits() const { return all_; }

  /// The sum, rounded to a double.
  [[nodiscard]] double value() const {
    if (all_[kDigits] != 0) return std::nan("");
    std::array<std::int64_t, kDigits> digits{};
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < kDigits; ++i) {
      const std::int64_t digit = all_[i] + carry;
      digits[i] = i + 1 < kDigits ? digit & 0xffffffff : digit;
      carry = digit >> 32;
    }
    double sum = 0;
    for (std::size_t i = kDigits; i-- > 0;)
      sum += std::ldexp(static_cast<double>(digits[i]), static_cast<int>(32 * i) - kBias);
    return sum;
  }

 private:
  __extension__ typedef __int128 Wide;
  static constexpr int kBias = 1152;  ///< bit 0 stands for 2^-1152
  static constexpr std::size_t kDigits = 70;
  std::array<std::int64_t, kDigits + 1> all_{};  ///< and how many numbers were not finite
};

}  // namespace training
