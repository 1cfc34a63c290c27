// SPDX-License-Identifier: Apache-2.0
// Orders of examples: each example once, and no order like another.
#include "../../training/data/permutation.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "test_seed.hpp"

namespace training {
namespace {

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

/// Every number is as likely in every place: of 5 numbers, the 120 orders come about equally often.
TEST(Permutation, OfFewNumbersTakesAllOrdersEvenly) {
  constexpr std::size_t kOrders = 120, kDraws = 12000;
  std::vector<std::pair<std::vector<std::uint32_t>, double>> seen;
  std::vector<std::uint32_t> order = {0, 1, 2, 3, 4};
  do seen.emplace_back(order, 0);
  while (std::ranges::next_permutation(order).found);
  ASSERT_EQ(seen.size(), kOrders);
  for (std::uint64_t number = 0; number < kDraws; ++number) {
    const auto found = std::ranges::lower_bound(seen, order_of(number, 5), {},
                                                [](const auto& entry) { return entry.first; });
    ++found->second;
  }
  constexpr double kMean = static_cast<double>(kDraws) / kOrders;
  double chi_square = 0;
  for (const auto& entry : seen)
    chi_square += (entry.second - kMean) * (entry.second - kMean) / kMean;
  EXPECT_LT(chi_square, 119 + 8 * 15.4);  // 119 degrees of freedom, deviation 15.4
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

}  // namespace
}  // namespace training
