// SPDX-License-Identifier: Apache-2.0
// Orders of examples: each example once, and no order like another.
#include "data/permutation.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "test_seed.hpp"

namespace training {
namespace permutation_test {

CounterRandom seeded() {
  return {coll::test::test_seed(), 0};
}

std::vector<std::uint32_t> order_of(std::uint64_t number, std::uint32_t count) {
  const Permutation permutation(seeded(), number, count);
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t i = 0; i < count; ++i) order[i] = permutation(i);
  return order;
}

TEST(Permutation, HasEachNumberOnce) {
  for (const std::uint32_t count :
       {1U, 2U, 3U, 4U, 5U, 16U, 17U, 255U, 256U, 257U, 4097U, 60000U}) {
    std::vector<std::uint32_t> order = order_of(3, count), all(count);
    std::iota(all.begin(), all.end(), 0);
    std::ranges::sort(order);
    EXPECT_EQ(order, all);
  }
}

TEST(Permutation, OfTheLargestCountStaysBelowIt) {
  constexpr std::uint32_t kCount = 1U << 31U;
  const Permutation permutation(seeded(), 0, kCount);
  std::vector<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 1000; ++i) seen.push_back(permutation(kCount - 1 - i));
  EXPECT_LT(std::ranges::max(seen), kCount);
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
}

TEST(Permutation, IsAnotherInEachEpoch) {
  EXPECT_NE(order_of(0, 1000), order_of(1, 1000));
}

/// Of 5 numbers, each two are as likely in the first two places.
TEST(Permutation, OfFewNumbersIsEven) {
  constexpr std::size_t kDraws = 20000;
  std::vector<double> seen(25);
  for (std::uint64_t number = 0; number < kDraws; ++number) {
    const auto order = order_of(number, 5);
    ++seen[order[0] * 5 + order[1]];
  }
  constexpr double kMean = kDraws / 20.0;
  double chi_square = 0;
  for (std::size_t i = 0; i < 25; ++i) {
    if (i / 5 == i % 5) continue;
    chi_square += (seen[i] - kMean) * (seen[i] - kMean) / kMean;
  }
  EXPECT_LT(chi_square, 80);  // 19 degrees of freedom: once in 5e8 runs
}

/// Neighbours are not neighbours afterwards: the mean distance of two random numbers is count / 3.
TEST(Permutation, ScattersNeighbours) {
  constexpr std::uint32_t kCount = 60000;
  const auto order = order_of(7, kCount);
  double distance = 0;
  for (std::uint32_t i = 1; i < kCount; ++i)
    distance += std::abs(static_cast<double>(order[i]) - order[i - 1]);
  distance /= kCount - 1.0;
  EXPECT_NEAR(distance / kCount, 1.0 / 3, 0.01);  // its deviation is 0.001
}

}  // namespace permutation_test
}  // namespace training
