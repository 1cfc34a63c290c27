// SPDX-License-Identifier: Apache-2.0
// What the scratch pool gives, keeps and counts.
#include "executor/scratch_pool.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace coll {
namespace {

constexpr std::size_t kPage = 4096;

/// A source of memory that others can read, which counts.
struct Source {
  int made = 0, freed = 0;
  bool empty = false;

  ScratchPool::Readable readable() {
    return [this](std::size_t bytes) -> ScratchPool::Memory {
      if (empty) return {};
      ++made;
      return {new std::byte[bytes], [this](std::byte* memory) {
                ++freed;
                delete[] memory;
              }};
    };
  }
};

TEST(ScratchPool, AsksForReadableMemoryByUse) {
  Source source;
  ScratchPool pool(source.readable());
  const auto program = pool.take(100, ScratchUse::program);
  EXPECT_EQ(source.made, 0) << "nobody else reads it";
  const auto staging = pool.take(100, ScratchUse::staging);
  const auto call = pool.take(100, ScratchUse::call);
  EXPECT_EQ(source.made, 2);
  source.empty = true;
  EXPECT_EQ(pool.take(100, ScratchUse::staging).data(), nullptr);
  EXPECT_NE(pool.take(100, ScratchUse::call).data(), nullptr) << "private memory will do";
  EXPECT_EQ(ScratchPool().take(100, ScratchUse::staging).data(), nullptr);
}

TEST(ScratchPool, KeepsTheBlocksOfCallsAndFreesTheOthers) {
  Source source;
  ScratchPool pool(source.readable());
  std::byte* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const auto block = pool.take(kPage - static_cast<std::size_t>(i), ScratchUse::call);
    if (i == 0) first = block.data();
    EXPECT_EQ(block.data(), first);
  }
  EXPECT_EQ(source.freed, 0);
  { const auto staging = pool.take(100, ScratchUse::staging); }
  EXPECT_EQ(source.freed, 1);
}

TEST(ScratchPool, CountsWhatIsReserved) {
  ScratchPool pool;
  const auto& counts = pool.counts();
  {
    const auto program = pool.take(100, ScratchUse::program);
    const auto call = pool.take(1, ScratchUse::call);
    EXPECT_EQ(counts.of(ScratchUse::program), 100U);
    EXPECT_EQ(counts.of(ScratchUse::call), kPage);
  }
  EXPECT_EQ(counts.of(ScratchUse::program), 0U);
  EXPECT_EQ(counts.of(ScratchUse::call), kPage) << "it is kept";
}

TEST(ScratchPool, KeepsAtMost32IdleBlocksAnd64MiB) {
  Source source;
  ScratchPool pool(source.readable());
  {
    std::vector<ScratchPool::Block> blocks;
    for (std::size_t i = 1; i <= 40; ++i) blocks.push_back(pool.take(i * kPage, ScratchUse::call));
  }
  EXPECT_EQ(source.freed, 8);
  { const auto large = pool.take(std::size_t{65} << 20, ScratchUse::call); }
  EXPECT_EQ(pool.counts().of(ScratchUse::call), std::uint64_t{65} << 20) << "the last is kept";
  EXPECT_EQ(source.freed, 40);
}

/// To free a GPU's memory may wait for calls, so blocks stay. They serve shorter calls too.
TEST(ScratchPool, KeepsAllBlocksOfGpus) {
  int made = 0, freed = 0;
  const auto make = [&](const ScratchPool::Memory& none, std::size_t bytes) {
    EXPECT_FALSE(none) << "whoever takes the block makes it";
    ++made;
    return ScratchPool::Memory(new std::byte[bytes], [&freed](std::byte* memory) {
      ++freed;
      delete[] memory;
    });
  };
  {
    ScratchPool pool;
    const auto take = [&](std::size_t bytes) { return pool.take(bytes, ScratchUse::gpu, make); };
    std::byte* large = nullptr;
    {
      const auto first = take(40 * kPage);
      const auto second = take(3 * kPage);
      large = first.data();
      EXPECT_EQ(pool.counts().of(ScratchUse::gpu), (64 + 4) * kPage);
    }
    {
      const auto first = take(2 * kPage);  // the shortest that is long enough
      const auto second = take(4 * kPage);
      EXPECT_NE(first.data(), large);
      EXPECT_EQ(second.data(), large);
    }
    EXPECT_EQ(take(64 * kPage).data(), large);
    { const auto host = pool.take(std::size_t{65} << 20, ScratchUse::call); }
    for (int i = 0; i < 40; ++i) {
      const auto host = pool.take(std::size_t(i) * kPage + 1, ScratchUse::call);
    }
    EXPECT_EQ(made, 2);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 2);
}

TEST(ScratchPool, NeverGivesBackWhatIsAbandoned) {
  Source source;
  ScratchPool pool(source.readable());
  std::byte* memory = nullptr;
  {
    auto block = pool.take(100, ScratchUse::staging);
    memory = block.data();
    block.abandon();
  }
  EXPECT_EQ(source.freed, 0);
  EXPECT_EQ(pool.counts().of(ScratchUse::staging), 100U) << "it is still there";
  delete[] memory;
}

}  // namespace
}  // namespace coll
