// SPDX-License-Identifier: Apache-2.0
// Buckets close as PyTorch's do, and parameters lie where kernels and shards need them.
#include <gtest/gtest.h>

#include <numeric>

#include "layout/shard.hpp"
#include "test_seed.hpp"

namespace training {
namespace flat_layout_test {

using Names = std::vector<std::pair<std::size_t, std::size_t>>;

Names names_of(const Bucket& bucket) {
  Names names;
  for (const Place& place : bucket.places) names.emplace_back(place.unit, place.parameter);
  return names;
}

TEST(FlatLayout, BackwardOrderBeginsWithTheLastParameter) {
  EXPECT_EQ(FlatLayout::backward_order({{1, 1}, {}, {1, 1, 1}}),
            (Names{{2, 2}, {2, 1}, {2, 0}, {0, 1}, {0, 0}}));
}

TEST(FlatLayout, ABucketClosesOnceItHasReachedItsLimit) {
  // 64 floats are 256 bytes. The first limit is 256, the others are 512.
  const FlatLayout::Sizes sizes = {{64, 64, 64, 64, 16}, {128, 64}};
  const FlatLayout layout =
      FlatLayout::by_bytes(sizes, FlatLayout::backward_order(sizes), {256, 512, 4}, 16);
  ASSERT_EQ(layout.buckets().size(), 4U);
  EXPECT_EQ(names_of(layout.buckets()[0]), (Names{{1, 1}}));  // exactly at its limit
  EXPECT_EQ(names_of(layout.buckets()[1]), (Names{{1, 0}}));  // the same, of the others
  EXPECT_EQ(names_of(layout.buckets()[2]), (Names{{0, 4}, {0, 3}, {0, 2}}));  // passes it
  EXPECT_EQ(names_of(layout.buckets()[3]), (Names{{0, 1}, {0, 0}}));
}

TEST(FlatLayout, TheLimitIsInBytesOfTheElements) {
  const FlatLayout::Sizes sizes = {{64, 64, 64, 64}};
  const auto order = FlatLayout::backward_order(sizes);
  EXPECT_EQ(FlatLayout::by_bytes(sizes, order, {256, 256, 4}, 16).buckets().size(), 4U);
  EXPECT_EQ(FlatLayout::by_bytes(sizes, order, {256, 256, 2}, 16).buckets().size(), 2U);
}

TEST(FlatLayout, DefaultLimitsArePyTorchs) {
  const FlatLayout::Sizes sizes = {std::vector<std::size_t>(60, std::size_t{1} << 18U)};  // 1 MiB
  const FlatLayout layout =
      FlatLayout::by_bytes(sizes, FlatLayout::backward_order(sizes), {}, kParameterAlignment);
  ASSERT_EQ(layout.buckets().size(), 4U);
  EXPECT_EQ(layout.buckets()[0].places.size(), 1U);
  EXPECT_EQ(layout.buckets()[1].places.size(), 25U);
  EXPECT_EQ(layout.buckets()[2].places.size(), 25U);
  EXPECT_EQ(layout.buckets()[3].places.size(), 9U);
}

/// What holds of every layout.
void expect_sound(const FlatLayout& layout, const FlatLayout::Sizes& sizes, std::size_t alignment) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < layout.buckets().size(); ++i) {
    const Bucket& bucket = layout.buckets()[i];
    EXPECT_EQ(layout.begin(i), begin);
    begin += bucket.size;
    EXPECT_EQ(bucket.size % alignment, 0U);
    EXPECT_LT(bucket.size - bucket.used, alignment);
    std::size_t end = 0;
    for (const Place& place : bucket.places) {
      EXPECT_EQ(place.bucket, i);
      EXPECT_EQ(place.offset % kParameterAlignment, 0U);
      EXPECT_GE(place.offset, end);
      EXPECT_LT(place.offset - end, kParameterAlignment);
      end = place.offset + place.size;
    }
    EXPECT_EQ(bucket.used, end);
  }
  EXPECT_EQ(layout.size(), begin);
  ASSERT_EQ(layout.units(), sizes.size());
  for (std::size_t unit = 0; unit < sizes.size(); ++unit) {
    ASSERT_EQ(layout.parameters(unit), sizes[unit].size());
    for (std::size_t i = 0; i < sizes[unit].size(); ++i) {
      const Place& place = layout.place(unit, i);
      EXPECT_EQ(std::pair(place.unit, place.parameter), std::pair(unit, i));
      EXPECT_EQ(place.size, sizes[unit][i]);
    }
  }
}

class RandomLayouts : public testing::Test {
 protected:
  FlatLayout::Sizes sizes() {
    FlatLayout::Sizes all(1 + random_() % 5);
    for (auto& unit : all)
      for (std::size_t i = 1 + random_() % 6; i > 0; --i) unit.push_back(1 + random_() % 300);
    return all;
  }
  std::mt19937_64 random_{coll::test::test_seed()};
};

TEST_F(RandomLayouts, AreAligned) {
  for (int i = 0; i < 100; ++i) {
    const auto all = sizes();
    const std::size_t alignment = kParameterAlignment * (1 + random_() % 8);
    auto order = FlatLayout::backward_order(all);
    std::shuffle(order.begin(), order.end(), random_);
    const BucketLimits limits{1 + random_() % 2000, 1 + random_() % 4000};
    expect_sound(FlatLayout::by_bytes(all, order, limits, alignment), all, alignment);
    const FlatLayout by_unit = FlatLayout::by_unit(all, alignment);
    expect_sound(by_unit, all, alignment);
    ASSERT_EQ(by_unit.buckets().size(), all.size());
    for (std::size_t unit = 0; unit < all.size(); ++unit)
      EXPECT_EQ(by_unit.place(unit, 0).bucket, all.size() - 1 - unit);
  }
}

TEST_F(RandomLayouts, ShardsDivideEveryBucket) {
  for (int i = 0; i < 50; ++i) {
    const auto all = sizes();
    const std::size_t ranks = 1 + random_() % 8;
    const FlatLayout layout = FlatLayout::by_unit(all, ranks * kParameterAlignment);
    for (const Bucket& bucket : layout.buckets()) {
      std::size_t end = 0, elements = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Range range = Shard{rank, ranks}.of(bucket);
        EXPECT_EQ(range.begin, end);
        end = range.end();
        for_each_place(bucket, range, [&](const Place& place, const Range& part) {
          EXPECT_GE(part.begin, std::max(range.begin, place.offset));
          EXPECT_LE(part.end(), std::min(range.end(), place.offset + place.size));
          elements += part.count;
        });
      }
      EXPECT_EQ(end, bucket.size);
      const auto& unit = all[bucket.places.front().unit];
      EXPECT_EQ(elements, std::accumulate(unit.begin(), unit.end(), std::size_t{0}));
    }
  }
}

TEST_F(RandomLayouts, ElementsMoveWithTheirParameters) {
  const auto all = sizes();
  const FlatLayout from = FlatLayout::by_unit(all, 16);
  auto order = FlatLayout::backward_order(all);
  std::shuffle(order.begin(), order.end(), random_);
  const FlatLayout to = FlatLayout::by_bytes(all, order, {100, 900}, 48);
  std::vector<float> before(from.size(), -1), after(to.size(), -1);
  std::iota(before.begin(), before.end(), 0.0F);
  move_elements(from, before.data(), to, after.data());
  for (std::size_t unit = 0; unit < all.size(); ++unit) {
    for (std::size_t i = 0; i < all[unit].size(); ++i) {
      const Place &old = from.place(unit, i), &now = to.place(unit, i);
      for (std::size_t j = 0; j < all[unit][i]; ++j)
        ASSERT_EQ(after[to.begin(now.bucket) + now.offset + j],
                  before[from.begin(old.bucket) + old.offset + j]);
    }
  }
}

}  // namespace flat_layout_test
}  // namespace training
