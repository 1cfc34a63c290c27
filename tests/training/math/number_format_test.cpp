// SPDX-License-Identifier: Apache-2.0
// The formats bf16 and f16 keep to their definition: widening is exact, narrowing takes the nearest
// number, ties to the even one.
#include "math/number_format.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel_tables.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace number_format_test {

/// A format as IEEE 754 describes it.
struct Definition {
  Format format;
  int fraction_bits, least_exponent;  ///< of normal numbers
  int exponent_bits;
};
constexpr Definition kDefinitions[] = {{Format::bf16, 7, -126, 8}, {Format::f16, 10, -14, 5}};

/// What a pattern of bits stands for.
double meaning(const Definition& of, std::uint32_t bits) {
  const std::uint32_t fraction = bits & ((1U << of.fraction_bits) - 1);
  const std::uint32_t exponent = (bits >> of.fraction_bits) & ((1U << of.exponent_bits) - 1);
  const double sign = (bits >> 15U) != 0 ? -1 : 1;
  if (exponent == (1U << of.exponent_bits) - 1)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double whole = exponent == 0 ? 0 : 1;
  const int power = of.least_exponent + (exponent == 0 ? 0 : static_cast<int>(exponent) - 1);
  return sign * std::ldexp(whole + std::ldexp(fraction, -of.fraction_bits), power);
}

/// The number of the format that is nearest to `value`.
double nearest(const Definition& of, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), of.least_exponent);
  const double unit = std::ldexp(1, exponent - of.fraction_bits);
  const double rounded = std::nearbyint(value / unit) * unit;  // to nearest, ties to even
  const double limit = std::ldexp(1, 1 - of.least_exponent + 1);
  return std::fabs(rounded) < limit ? rounded
                                    : std::copysign(std::numeric_limits<double>::infinity(), value);
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

/// Narrows all values, and compares each with the reference.
void expect_nearest(const Definition& of, const std::vector<float>& values) {
  std::vector<std::uint16_t> narrowed(values.size());
  narrow(of.format, values.size(), values.data(), narrowed.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double got = meaning(of, narrowed[i]), value = static_cast<double>(values[i]);
    const bool right = std::isnan(value)
                           ? std::isnan(got)
                           : got == nearest(of, value) && std::signbit(got) == std::signbit(value);
    if (!right && ++wrong < 5)
      ADD_FAILURE() << name_of(of.format) << " of " << value << ": " << got << ", not "
                    << nearest(of, value);
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(NumberFormat, AllPatternsWidenExactly) {
  for (const Definition& of : kDefinitions) {
    const auto patterns = all_patterns();
    std::vector<float> wide(patterns.size());
    widen(of.format, patterns.size(), patterns.data(), wide.data());
    std::vector<std::uint16_t> again(patterns.size());
    narrow(of.format, wide.size(), wide.data(), again.data());
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const double expected = meaning(of, patterns[i]);
      EXPECT_EQ(std::signbit(wide[i]), std::signbit(expected) || patterns[i] >= 0x8000);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(meaning(of, again[i]))) << i;
      } else {
        EXPECT_EQ(static_cast<double>(wide[i]), expected) << i;
        EXPECT_EQ(again[i], patterns[i]);
      }
    }
  }
}

TEST(NumberFormat, HalfwayValuesAndTheirNeighboursNarrowToTheNearest) {
  for (const Definition& of : kDefinitions) {
    std::vector<float> values;
    for (std::uint32_t bits = 0; bits < 0x7fffU; ++bits) {
      const double low = meaning(of, bits), high = meaning(of, bits + 1);
      if (!std::isfinite(low)) break;
      // Above the largest number: halfway to where the next one would be.
      const double step = std::isfinite(high) ? high - low : low - meaning(of, bits - 1);
      const auto half = static_cast<float>(low + step / 2);
      for (const float value : {half, std::nextafter(half, 0.0F), std::nextafter(half, INFINITY),
                                static_cast<float>(low)}) {
        values.push_back(value);
        values.push_back(-value);
      }
    }
    expect_nearest(of, values);
  }
}

TEST(NumberFormat, RandomBitsNarrowToTheNearest) {
  std::mt19937_64 random(coll::test::test_seed());
  for (const Definition& of : kDefinitions) {
    std::vector<float> values;
    for (int i = 0; i < 300000; ++i) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
      // Most bits are far outside of what f16 can hold: also some within.
      const int power = static_cast<int>(random() % 45) - 26;
      values.push_back(
          std::ldexp(1 + std::ldexp(static_cast<float>(random() % 8388608), -23), power));
    }
    expect_nearest(of, values);
  }
}

#ifdef __FLT16_MANT_DIG__
TEST(NumberFormat, NarrowsToF16AsTheCompilerDoes) {
  std::mt19937_64 random(coll::test::test_seed());
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    std::uint16_t narrowed = 0;
    narrow(Format::f16, 1, &value, &narrowed);
    EXPECT_EQ(narrowed, std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << value;
  }
}
#endif

TEST(NumberFormat, SumsAreRoundedOnce) {
  std::mt19937_64 random(coll::test::test_seed());
  for (const Definition& of : kDefinitions) {
    std::vector<std::uint16_t> a(10001), b(a.size());
    for (auto& bits : a) bits = static_cast<std::uint16_t>(random());
    for (std::size_t i = 0; i < b.size(); ++i)  // mostly of about the same size as its partner
      b[i] = static_cast<std::uint16_t>(a[i] ^ (random() & (i % 10 == 0 ? 0xffffU : 0x83ffU)));
    auto sums = b;
    add(of.format, sums.size(), a.data(), sums.data());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto in_f32 = static_cast<float>(meaning(of, a[i]) + meaning(of, b[i]));
      const double got = meaning(of, sums[i]);
      if (std::isnan(in_f32)) {
        EXPECT_TRUE(std::isnan(got));
      } else {
        EXPECT_EQ(got, nearest(of, static_cast<double>(in_f32)));
      }
    }
  }
}

TEST(NumberFormat, F32StaysAsItIs) {
  const std::vector<float> values = {1, -0.0F, INFINITY, 0x1p-140F};
  std::vector<float> wide(4), narrowed(4), sums = values;
  widen(Format::f32, 4, values.data(), wide.data());
  narrow(Format::f32, 4, values.data(), narrowed.data());
  add(Format::f32, 4, values.data(), sums.data());
  EXPECT_EQ(wide, values);
  EXPECT_EQ(narrowed, values);
  EXPECT_EQ(sums, (std::vector<float>{2, -0.0F, INFINITY, 0x1p-139F}));
}

}  // namespace number_format_test
}  // namespace training::test
