// SPDX-License-Identifier: Apache-2.0
// Algorithms and their cuts as text.
#include "planner/recipe.hpp"

#include <gtest/gtest.h>

namespace coll {
namespace {

TEST(Recipe, ReadsWhatItPrintsAndSuffixes) {
  for (const Recipe& recipe : {Recipe{"ring"}, Recipe{"two_shot", {1, 64}},
                               Recipe{"no_such_algorithm", {1024, 0xffffffc0}}}) {
    const auto read = read_recipe(recipe.text());
    ASSERT_TRUE(read.ok()) << read.status().text();
    EXPECT_EQ(*read, recipe);
  }
  EXPECT_EQ(Recipe{"ring"}.text(), "ring");
  EXPECT_EQ((Recipe{"two_shot", {2, 64 << 10}}).text(), "two_shot/2x65536");
  EXPECT_EQ(read_recipe("two_shot/2x64K")->text(), "two_shot/2x65536");
  EXPECT_EQ(read_recipe("ring/4x1.5M")->cut, (Cut{4, 3 << 19}));
  EXPECT_EQ(read_recipe("ring/1x1")->cut, (Cut{1, 1}));
}

TEST(Recipe, RefusesWhatIsNoCutAndSaysHowToSayIt) {
  for (const char* cut : {"",        "2",       "x",     "2x",       "x64K",  "0x64K",  "2x0",
                          "-1x64K",  "2x-64K",  "2*64K", "1025x64K", "2x4G",  "2x64K ", "2x64Kx",
                          "2 x 64K", "1.5x64K", "2x64Q", "2x64K/2",  "2X64K", "twox64K"}) {
    const auto read = read_recipe(std::string("ring/") + cut);
    ASSERT_FALSE(read.ok()) << cut;
    EXPECT_EQ(read.status().code(), Code::invalid_argument);
    const std::string text = read.status().text();
    EXPECT_NE(text.find("\"" + std::string(cut) + "\" is no cut for ring"), std::string::npos)
        << text;
    EXPECT_NE(text.find("ring/2x64K"), std::string::npos) << text;
  }
}

TEST(Recipe, WhatACutLeavesOpenAnotherFills) {
  EXPECT_EQ((Cut{}.or_else({2, 64})), (Cut{2, 64}));
  EXPECT_EQ((Cut{4, 0}.or_else({2, 64})), (Cut{4, 64}));
  EXPECT_EQ((Cut{0, 128}.or_else({2, 64})), (Cut{2, 128}));
  EXPECT_EQ((Cut{4, 128}.or_else({2, 64})), (Cut{4, 128}));
}

}  // namespace
}  // namespace coll
