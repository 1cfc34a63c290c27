// SPDX-License-Identifier: Apache-2.0
// copy_bytes: all bytes, and no others, wherever they lie.
#include "base/copy_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "test_seed.hpp"

namespace coll {
namespace {

constexpr std::size_t kPage = 4096, kMost = 9000;

using Copy = void (*)(std::byte*, const std::byte*, std::size_t);

void check(Copy copy, const std::vector<std::byte>& before, std::mt19937_64& random) {
  std::vector<std::byte> memory = before;
  const std::size_t bytes = random() % 4 == 0 ? random() % 130 : random() % kMost;
  const std::size_t from = random() % kPage;
  const std::size_t to = 2 * (kMost + kPage) / kPage * kPage + from + random() % 70;
  copy(memory.data() + to, memory.data() + from, bytes);
  std::vector<std::byte> expected = before;
  std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(from), bytes,
              expected.begin() + static_cast<std::ptrdiff_t>(to));
  ASSERT_TRUE(memory == expected) << bytes << " bytes from " << from << " to " << to;
}

TEST(CopyBytes, CopiesAllBytesAndNoOthers) {
  std::mt19937_64 random(test::test_seed());
  std::vector<std::byte> before(4 * (kMost + kPage));
  for (std::byte& byte : before) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 2000; ++i) {
    long_moves_crawl = i % 2 == 0;
    check(copy_bytes, before, random);
    check(copy_by_loop, before, random);
  }
  copy_bytes(nullptr, nullptr, 0);
}

TEST(CopyBytes, KnowsWhatLiesALittleBehindTheSamePlaceOfAPage) {
  const auto* from = reinterpret_cast<const std::byte*>(7 * kPage + 48);
  const auto behind = [&](std::size_t to) {
    return lies_a_little_behind(reinterpret_cast<std::byte*>(to), from);
  };
  const std::size_t same = 90 * kPage + 48;
  EXPECT_TRUE(behind(same + 1));
  EXPECT_TRUE(behind(same + 16));
  EXPECT_TRUE(behind(same + 31));
  EXPECT_TRUE(behind(2 * kPage + 64)) << "in front of it in memory";
  for (const std::size_t to : {same, same + 32, same - 1, same + kPage / 2})
    EXPECT_FALSE(behind(to)) << to;
}

}  // namespace
}  // namespace coll
