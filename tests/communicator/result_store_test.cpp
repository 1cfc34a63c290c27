// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: which results go past the caches.
#include "communicator/result_store.hpp"

#include <gtest/gtest.h>

namespace coll {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ResultStore, WhatOutgrowsACoresOwnCacheGoesPastASlowSharedOne) {
  const CoreCaches caches{.own = 2 * kMiB, .shared = 260 * kMiB, .shared_by = 2};
  EXPECT_EQ(streaming_bytes(caches, false, {2, 1}), 2 * kMiB);
  EXPECT_EQ(streaming_bytes({}, false, {2, 1}), 2 * kMiB);
  EXPECT_EQ(streaming_bytes({}, true, {2, 1}), 2 * kMiB);
}

TEST(ResultStore, AFastSharedCacheHoldsInputsAndResultsOfThoseThatShareIt) {
  const CoreCaches caches{.own = kMiB, .shared = 32 * kMiB, .shared_by = 8};
  EXPECT_EQ(streaming_bytes(caches, true, {1, 1}), 16 * kMiB);
  EXPECT_EQ(streaming_bytes(caches, true, {2, 1}), 8 * kMiB);
  EXPECT_EQ(streaming_bytes(caches, true, {8, 1}), 2 * kMiB);
  // Further ranks are on other caches, unless cores have several.
  EXPECT_EQ(streaming_bytes(caches, true, {64, 1}), 2 * kMiB);
  EXPECT_EQ(streaming_bytes(caches, true, {64, 1.5}), 32 * kMiB / 2 / 12);
  EXPECT_EQ(streaming_bytes(caches, true, {64, 4}), kMiB);
}

TEST(ResultStore, IsTheSameAtEverySizeBeyondTheFirstOne) {
  using enum reduce::Store;
  const Neighbours alone{1, 1};
  EXPECT_EQ(store_for(0, alone), cached);
  EXPECT_EQ(store_for(64 << 10, alone), cached);
  EXPECT_EQ(store_for(std::uint64_t{1} << 40, alone), streaming);
  reduce::Store last = cached;
  for (std::uint64_t bytes = 1 << 10; bytes <= std::uint64_t{1} << 36; bytes *= 2) {
    const reduce::Store store = store_for(bytes, alone);
    EXPECT_TRUE(last == cached || store == streaming) << bytes;
    last = store;
  }
}

}  // namespace
}  // namespace coll
