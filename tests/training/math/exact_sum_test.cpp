// SPDX-License-Identifier: Apache-2.0
// The exact sum is that of integers, in any order and over any split, to the last bit.
#include "math/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "test_seed.hpp"

namespace training {
namespace exact_sum_test {

constexpr double kMost = std::numeric_limits<double>::max();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, OfOneNumberIsTheNumber) {
  EXPECT_EQ(sum_of({}), 0);
  for (const double value : {0.0, 1.0, 1.5, 0.1, 3e-308, kLeast, 7 * kLeast, kMost, 0x1p-1022,
                             0x1.fffffffffffffp-1023, 0x1p1023}) {
    EXPECT_EQ(sum_of({value}), value);
    EXPECT_EQ(sum_of({-value}), -value);
  }
  std::mt19937_64 random(coll::test::test_seed());
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(sum_of({value}), value);
  }
}

TEST(ExactSum, CancelsExactly) {
  EXPECT_EQ(sum_of({kMost, 1, -kMost}), 1);
  EXPECT_EQ(sum_of({1e300, kLeast, -1e300}), kLeast);
  EXPECT_EQ(sum_of({-1e300, -kLeast, 1e300}), -kLeast);
  EXPECT_EQ(sum_of({kMost, kMost, -kMost}), kMost);
  EXPECT_EQ(sum_of({kMost, kMost}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(sum_of({-kMost, -kMost}), -std::numeric_limits<double>::infinity());
}

TEST(ExactSum, RoundsOnceToTheNearestAndTiesToTheEven) {
  EXPECT_EQ(sum_of({1, 0x1p-53}), 1);                    // a tie, and 1 is even
  EXPECT_EQ(sum_of({1, 0x1p-53, kLeast}), 1 + 0x1p-52);  // far below, and yet more than a tie
  EXPECT_EQ(sum_of({-1, -0x1p-53, -kLeast}), -1 - 0x1p-52);
  EXPECT_EQ(sum_of({1, 0x1p-53, -kLeast}), 1);
  EXPECT_EQ(sum_of({1, 0x1p-52, 0x1p-53}), 1 + 0x1p-51);  // a tie, and above is even
}

/// Integers of any size up to 2^115, of both signs, as doubles.
std::vector<double> integers(std::mt19937_64& random, std::size_t count) {
  std::vector<double> values;
  while (values.size() < count) {
    const auto mantissa = static_cast<double>(random() >> 11U);
    values.push_back(
        std::ldexp(random() % 2 != 0 ? mantissa : -mantissa, static_cast<int>(random() % 62)));
  }
  return values;
}

TEST(ExactSum, IsThatOfIntegersAtEveryScale) {
  __extension__ using Integer = __int128;
  std::mt19937_64 random(coll::test::test_seed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> values = integers(random, 1 + random() % 200);
    Integer expected = 0;
    for (const double value : values) expected += static_cast<Integer>(value);
    for (const int scale : {-1074, -1000, -64, -1, 0, 5, 800, 900}) {
      ExactSum sum;
      for (const double value : values) sum.add(std::ldexp(value, scale));
      EXPECT_EQ(sum.value(), std::ldexp(static_cast<double>(expected), scale));
    }
  }
}

TEST(ExactSum, IsTheSameInAnyOrderAndOverAnySplit) {
  std::mt19937_64 random(coll::test::test_seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<double> values;
    while (values.size() < 500) {
      const double value = std::bit_cast<double>(random());
      if (std::isfinite(value)) values.push_back(value);
    }
    ExactSum whole;
    for (const double value : values) whole.add(value);
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> ranks(1 + random() % 8);
    for (const double value : values) ranks[random() % ranks.size()].add(value);
    ExactSum sum;
    for (const ExactSum& rank : ranks)
      for (std::size_t i = 0; i < sum.digits().size(); ++i) sum.digits()[i] += rank.digits()[i];
    EXPECT_EQ(sum.value(), whole.value());
    // And the sum is exact: with all numbers taken away again, nothing is left.
    for (const double value : values) sum.add(-value);
    EXPECT_EQ(sum.value(), 0);
  }
}

TEST(ExactSum, HoldsWhatOverflowsEveryDigit) {
  constexpr int kMany = 3000000;
  ExactSum sum;
  for (int i = 0; i < kMany; ++i) sum.add(-0x1.fffffffffffffp40);
  EXPECT_EQ(sum.value(), -0x1.fffffffffffffp40 * kMany);
}

TEST(ExactSum, OfWhatIsNotFiniteIsNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(sum_of({1, infinity})));
  EXPECT_TRUE(std::isnan(sum_of({infinity, -infinity})));
  EXPECT_TRUE(std::isnan(sum_of({std::nan(""), 1})));
}

}  // namespace exact_sum_test
}  // namespace training
