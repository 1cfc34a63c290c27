// SPDX-License-Identifier: Apache-2.0
// Which results go past the caches.
#include "communicator/calls/result_store.hpp"

#include <gtest/gtest.h>

namespace coll {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
using enum reduce::Store;

TEST(ResultStore, KeepsInACoresOwnCacheWhatFits) {
  const ResultStore store({.own = 2 * kMiB, .shared = 260 * kMiB, .shared_by = 2}, {2, 1});
  EXPECT_EQ(store.beyond_own(), 2 * kMiB);
  EXPECT_EQ(store.beyond_shared(), 65 * kMiB);
  const auto settled = [&](std::uint64_t bytes) {
    const ResultStore::Choice choice = store.of(bytes);
    EXPECT_TRUE(choice.settled) << bytes;
    return choice.store;
  };
  EXPECT_EQ(settled(0), cached);
  EXPECT_EQ(settled(2 * kMiB - 1), cached);
  EXPECT_EQ(settled(65 * kMiB), streaming);
  for (std::uint64_t seen = 0; seen < ResultStore::kFillsBefore * 2 * kMiB; seen += 4 * kMiB) {
    const ResultStore::Choice choice = store.of(4 * kMiB);
    EXPECT_EQ(choice.store, cached);
    EXPECT_FALSE(choice.settled);
  }
  // One answer for all between.
  EXPECT_EQ(settled(2 * kMiB), settled(65 * kMiB - 1));
}

TEST(ResultStore, ASharedCacheHoldsInputsAndResultsOfThoseThatShareIt) {
  const auto beyond = [](const Neighbours& neighbours) {
    return ResultStore({.own = kMiB, .shared = 32 * kMiB, .shared_by = 8}, neighbours)
        .beyond_shared();
  };
  EXPECT_EQ(beyond({1, 1}), 16 * kMiB);
  EXPECT_EQ(beyond({2, 1}), 8 * kMiB);
  EXPECT_EQ(beyond({8, 1}), 2 * kMiB);
  // Further ranks are on other caches, unless cores have several.
  EXPECT_EQ(beyond({64, 1}), 2 * kMiB);
  EXPECT_EQ(beyond({64, 1.5}), 32 * kMiB / 2 / 12);
  EXPECT_EQ(beyond({64, 4}), kMiB);
}

TEST(ResultStore, ASharedCacheIsFastUnlessItTakesLongerThanMemory) {
  EXPECT_FALSE(ResultStore::is_fast(14, 11)) << "a Xeon, 4 MiB";
  EXPECT_TRUE(ResultStore::is_fast(1.0, 1.3)) << "an EPYC of Zen 3";
  EXPECT_TRUE(ResultStore::is_fast(1.0, 2.4)) << "an EPYC of Zen 5";
}

TEST(ResultStore, WhatNobodyKnowsOfIsNotCountedOn) {
  EXPECT_EQ(ResultStore({}, {2, 1}).beyond_own(), 2 * kMiB);
  EXPECT_EQ(ResultStore({}, {2, 1}).beyond_shared(), 2 * kMiB);
  EXPECT_EQ(ResultStore({.own = kMiB, .shared = 32 * kMiB}, {1, 1}).beyond_shared(), kMiB);
}

}  // namespace
}  // namespace coll
