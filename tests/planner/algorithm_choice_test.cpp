// SPDX-License-Identifier: Apache-2.0
// What COLL_ALGORITHM demands, and of which calls.
#include "planner/algorithm_choice.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;

/// Of 6 ranks on a host; `bytes` is a power of two.
std::string forced(std::string_view text, Collective collective, std::uint64_t bytes) {
  const auto recipe = forced_recipe(text, {collective, 6, 0}, Layout::flat(6),
                                    static_cast<std::uint32_t>(std::countr_zero(bytes)));
  return recipe ? recipe->text() : "";
}

TEST(AlgorithmChoice, ARangeIsForItsSizesAndNoOthers) {
  const char* const text = "all_reduce=ring@64K-1M,all_reduce=two_shot@-32K,broadcast=chain@2M-";
  EXPECT_EQ(forced(text, all_reduce, 1), "two_shot");
  EXPECT_EQ(forced(text, all_reduce, 32 << 10), "two_shot");
  EXPECT_EQ(forced(text, all_reduce, 64 << 10), "ring");
  EXPECT_EQ(forced(text, all_reduce, 1 << 20), "ring");
  EXPECT_EQ(forced(text, all_reduce, 2 << 20), "");
  EXPECT_EQ(forced(text, broadcast, 1 << 20), "");
  EXPECT_EQ(forced(text, broadcast, 2 << 20), "chain");
  EXPECT_EQ(forced(text, broadcast, std::uint64_t{1} << 63), "chain");
  EXPECT_EQ(forced("all_reduce=ring@4K", all_reduce, 4096), "ring");
  EXPECT_EQ(forced("all_reduce=ring@4K", all_reduce, 8192), "");
}

TEST(AlgorithmChoice, TheMoreSpecificDemandWinsThenTheLast) {
  EXPECT_EQ(forced("all_reduce=ring,two_shot", all_reduce, 8), "ring");
  EXPECT_EQ(forced("two_shot,all_reduce=ring", all_reduce, 8), "ring");
  EXPECT_EQ(forced("all_reduce=ring,two_shot@8", all_reduce, 8), "ring");
  EXPECT_EQ(forced("all_reduce=two_shot@-1K,all_reduce=ring", all_reduce, 8), "two_shot");
  EXPECT_EQ(forced("all_reduce=two_shot@-1K,all_reduce=ring", all_reduce, 2048), "ring");
  EXPECT_EQ(forced("two_shot@-1K,ring", all_reduce, 8), "two_shot");
  EXPECT_EQ(forced("all_reduce=two_shot,all_reduce=ring", all_reduce, 8), "ring");
  EXPECT_EQ(forced("all_reduce=ring@-4K,all_reduce=two_shot@1K-", all_reduce, 2048), "two_shot");
}

TEST(AlgorithmChoice, ANameForAllCountsOnlyWhereItCan) {
  EXPECT_EQ(forced("binomial", broadcast, 8), "binomial");
  EXPECT_EQ(forced("binomial", all_to_all, 8), "");
  EXPECT_EQ(forced("all_to_all=ring", all_to_all, 8), "ring");  // who cannot must be told
}

/// A demand for an algorithm that needs equal blocks does not count for unequal blocks.
TEST(AlgorithmChoice, OfUnequalBlocksOnlyThoseCountThatServeThem) {
  const auto recipe = [](bool unequal) {
    return forced_recipe("reduce_scatter=recursive_halving", {reduce_scatter, 4, 0, unequal},
                         Layout::flat(4), 10);
  };
  EXPECT_TRUE(recipe(false).has_value());
  EXPECT_FALSE(recipe(true).has_value());
}

TEST(AlgorithmChoice, RefusesUnknownNamesAndListsTheKnownOnes) {
  EXPECT_TRUE(check_algorithm_knob("").ok());
  EXPECT_TRUE(check_algorithm_knob("ring,,broadcast=chain,").ok());
  EXPECT_TRUE(check_algorithm_knob("ring@-64K,broadcast=chain@1.5M-,reduce=chain@8-8").ok());
  const Status name = check_algorithm_knob("broadcast=chian@8");
  EXPECT_EQ(name.code(), Code::invalid_argument);
  EXPECT_TRUE(contains(name.text(), "\"chian\"") && contains(name.text(), " chain "))
      << name.text();
  const Status operation = check_algorithm_knob("ring,brodcast=chain");
  EXPECT_TRUE(contains(operation.text(), "\"brodcast\"") &&
              contains(operation.text(), " broadcast "))
      << operation.text();
}

TEST(AlgorithmChoice, ACutComesWithItsAlgorithm) {
  const char* const text = "ring/4x256K,all_reduce=two_shot/2x64K@1M-,all_reduce=ring@8";
  EXPECT_EQ(forced(text, all_reduce, 1 << 20), "two_shot/2x65536");
  EXPECT_EQ(forced(text, all_reduce, 64), "ring/4x262144");
  EXPECT_EQ(forced(text, all_reduce, 8), "ring");
  EXPECT_EQ(forced(text, all_gather, 8), "ring/4x262144");
  EXPECT_TRUE(check_algorithm_knob(text).ok());
}

TEST(AlgorithmChoice, RefusesCutsThatAreNone) {
  for (const char* item : {"ring/", "ring/2", "ring/0x64K@1M-", "all_reduce=ring/2y64K"}) {
    const Status status = check_algorithm_knob(std::string("chain,") + item);
    EXPECT_EQ(status.code(), Code::invalid_argument) << item;
    EXPECT_TRUE(contains(status.text(), "COLL_ALGORITHM: ") &&
                contains(status.text(), "for ring") && contains(status.text(), "ring/2x64K"))
        << status.text();
  }
  const Status name = check_algorithm_knob("chian/2x64K");
  EXPECT_TRUE(contains(name.text(), "the unknown algorithm \"chian\"")) << name.text();
}

TEST(AlgorithmChoice, RefusesSizesThatAreNoRange) {
  for (const char* sizes : {"", "-", "x", "64Q", "1M-64K", "1-2-3", "1.5", "-1K-2K", "64K-x"}) {
    const Status status = check_algorithm_knob(std::string("ring,all_reduce=ring@") + sizes);
    EXPECT_EQ(status.code(), Code::invalid_argument) << sizes;
    EXPECT_TRUE(contains(status.text(), "@64K-1M")) << status.text();
  }
}

}  // namespace
}  // namespace coll
