// SPDX-License-Identifier: Apache-2.0
// First values are normal, and do not depend on who makes them.
#include "layout/initial_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "test_seed.hpp"

namespace training {
namespace initial_weights_test {

ParameterInfo matrix(const std::string& name, std::size_t rows, std::size_t columns) {
  ParameterInfo info;
  info.name = name;
  info.rows = rows;
  info.columns = columns;
  info.mean = 0.5F;
  info.deviation = 2;
  return info;
}

std::vector<float> values(const ParameterInfo& info, std::uint64_t seed) {
  std::vector<float> all(info.size());
  initial_values(info, seed, 0, all);
  return all;
}

TEST(InitialWeights, AreNormal) {
  const auto all = values(matrix("w", 500, 800), coll::test::test_seed());
  const double n = static_cast<double>(all.size());
  std::array<double, 5> moments{};
  std::size_t within = 0;
  for (const float value : all) {
    const double z = (static_cast<double>(value) - 0.5) / 2;
    for (std::size_t i = 1; i < 5; ++i) moments[i] += std::pow(z, static_cast<double>(i)) / n;
    within += std::fabs(z) < 1 ? 1 : 0;
  }
  // Six standard errors of each: the deviations of z^k are 1, sqrt 2, sqrt 15 and sqrt 96.
  const double error = 6 / std::sqrt(n);
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, error * 1.42);
  EXPECT_NEAR(moments[3], 0, error * 3.88);
  EXPECT_NEAR(moments[4], 3, error * 9.8);
  EXPECT_NEAR(static_cast<double>(within) / n, 0.682689, error * 0.466);
}

TEST(InitialWeights, NeighboursAreNotCorrelated) {
  const auto all = values(matrix("w", 500, 800), coll::test::test_seed());
  for (const std::size_t distance : {1U, 2U, 3U, 4U, 800U}) {
    double sum = 0;
    for (std::size_t i = distance; i < all.size(); ++i)
      sum += static_cast<double>((all[i] - 0.5F) * (all[i - distance] - 0.5F)) / 4;
    EXPECT_LT(std::fabs(sum) / std::sqrt(static_cast<double>(all.size())), 6) << distance;
  }
}

TEST(InitialWeights, SeedsAndNamesDiffer) {
  const auto base = values(matrix("block0.up.weight", 8, 8), 1);
  EXPECT_EQ(base, values(matrix("block0.up.weight", 8, 8), 1));
  EXPECT_NE(base, values(matrix("block0.up.weight", 8, 8), 2));
  EXPECT_NE(base, values(matrix("block0.up.weight", 8, 8), 1 + (std::uint64_t{1} << 32U)));
  EXPECT_NE(base, values(matrix("block1.up.weight", 8, 8), 1));
}

TEST(InitialWeights, WithoutDeviationAreTheMean) {
  ParameterInfo gain = matrix("gain", 1, 7);
  gain.deviation = 0;
  EXPECT_EQ(values(gain, 3), std::vector<float>(7, 0.5F));
}

TEST(InitialWeights, PiecesAreThoseOfTheWhole) {
  std::mt19937_64 random(coll::test::test_seed());
  const ParameterInfo info = matrix("w", 13, 17);
  const auto all = values(info, 5);
  for (int i = 0; i < 50; ++i) {
    const std::size_t first = random() % all.size(), count = random() % (all.size() - first + 1);
    std::vector<float> piece(count);
    initial_values(info, 5, first, piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + static_cast<long>(first)));
  }
}

TEST(InitialWeights, SplitMatricesHaveTheElementsOfTheWhole) {
  const auto whole = values(matrix("w", 12, 10), 9);
  // Rows 1 and 2 of each of three groups of four, columns 4 to 8.
  ParameterInfo part = matrix("w", 6, 5);
  part.slice = {.rows = 12, .columns = 10, .first_row = 1, .first_column = 4, .row_groups = 3};
  const auto own = values(part, 9);
  for (std::size_t group = 0; group < 3; ++group)
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t column = 0; column < 5; ++column)
        EXPECT_EQ(own[(group * 2 + row) * 5 + column],
                  whole[(group * 4 + 1 + row) * 10 + 4 + column]);
}

}  // namespace initial_weights_test
}  // namespace training
