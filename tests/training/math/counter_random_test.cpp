// SPDX-License-Identifier: Apache-2.0
// Random numbers without a state: the published ones, and bounds.
#include "math/counter_random.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "test_seed.hpp"

namespace training {
namespace counter_random_test {

TEST(Philox, GivesTheNumbersOfItsAuthors) {  // Random123's kat_vectors
  constexpr std::uint32_t kAll = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (RandomWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kAll, kAll, kAll, kAll}, ~std::uint64_t{0}),
            (RandomWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (RandomWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, DependsOnEachOfItsArguments) {
  const std::uint64_t seed = coll::test::test_seed();
  const RandomWords words = CounterRandom(seed, 1)(2, 3, 4);
  EXPECT_EQ(words, CounterRandom(seed, 1)(2, 3, 4));
  EXPECT_NE(words, CounterRandom(seed + 1, 1)(2, 3, 4));
  EXPECT_NE(words, CounterRandom(seed, 2)(2, 3, 4));
  EXPECT_NE(words, CounterRandom(seed, 1)(2 + (std::uint64_t{1} << 32U), 3, 4));
  EXPECT_NE(words, CounterRandom(seed, 1)(2, 4, 4));
  EXPECT_NE(words, CounterRandom(seed, 1)(2, 3, 5));
}

TEST(Below, ReachesBothEndsAndNoFurther) {
  constexpr std::uint32_t kAll = 0xffffffff;
  for (const std::uint64_t count :
       {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{1} << 31U, std::uint64_t{1} << 32U}) {
    EXPECT_EQ(below(count, 0, 0), 0U);
    EXPECT_EQ(below(count, kAll, kAll), count - 1);
  }
}

TEST(Below, IsEven) {
  constexpr std::size_t kKinds = 7, kDraws = 70000;
  const CounterRandom random(coll::test::test_seed(), 0);
  std::vector<double> seen(kKinds);
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const RandomWords words = random(0, i, 0);
    ++seen[below(kKinds, words[0], words[1])];
  }
  constexpr double kMean = kDraws / static_cast<double>(kKinds);
  double chi_square = 0;
  for (const double count : seen) chi_square += (count - kMean) * (count - kMean) / kMean;
  EXPECT_LT(chi_square, 50);  // 6 degrees of freedom: once in 2e8 runs
}

}  // namespace counter_random_test
}  // namespace training
