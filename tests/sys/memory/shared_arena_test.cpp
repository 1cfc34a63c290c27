// SPDX-License-Identifier: Apache-2.0
// Memory that processes share, as its owner sees it.
#include "sys/memory/shared_arena.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sys/child_process.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

using testing::in_child;

constexpr std::size_t kMiB = std::size_t{1} << 20;

SharedArena& arena() {
  const Result<SharedArena*> made = SharedArena::of_this_process();
  COLL_CHECK(made.ok(), made.status().text().c_str());
  return **made;
}

std::optional<std::uint64_t> offset_of(const std::byte* data, std::size_t bytes) {
  const auto place = SharedSegments::find(data, bytes);
  if (!place || place->segment != SharedPlace::kArena) return std::nullopt;
  return place->offset;
}

struct Block {
  std::byte* data;
  std::size_t bytes;
};

Block take(std::size_t bytes) {
  const Result<std::byte*> block = arena().allocate(bytes);
  EXPECT_TRUE(block.ok()) << block.status().text();
  return {block.ok() ? *block : nullptr, bytes};
}

void give_back(const Block& block) {
  const Status status = arena().free(block.data);
  EXPECT_TRUE(status.ok()) << status.text();
}

bool holds(const Block& block, std::byte value) {
  return std::all_of(block.data, block.data + block.bytes, [=](std::byte b) { return b == value; });
}

/// Sizes around the borders of pages and huge pages.
std::size_t draw_size(std::mt19937_64& random) {
  constexpr std::array<std::size_t, 4> kUnits{1, 4096, 64 << 10, 2 * kMiB};
  const std::size_t unit = kUnits[random() % kUnits.size()];
  return unit * (random() % 3) + random() % 3;
}

/// True if nothing is in use and all that is free is one piece.
bool is_whole() {
  const Result<std::byte*> all = arena().allocate(arena().size());
  return all.ok() && arena().free(*all).ok();
}

TEST(SharedArena, BlocksAreAlignedZeroedAndApart) {
  std::vector<Block> blocks;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{4097},
        2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, std::size_t{1}, 5 * kMiB}) {
    const Block block = take(bytes);
    ASSERT_NE(block.data, nullptr);
    const std::size_t unit = bytes >= 2 * kMiB ? 2 * kMiB : 4096;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % unit, 0U) << bytes;
    EXPECT_TRUE(holds(block, std::byte{0})) << bytes;
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    std::memset(blocks[i].data, static_cast<int>(i + 1), blocks[i].bytes);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_TRUE(holds(blocks[i], static_cast<std::byte>(i + 1))) << blocks[i].bytes;
  for (const Block& block : blocks) give_back(block);
  EXPECT_TRUE(is_whole());
}

TEST(SharedArena, WhatWasFreedComesBackZeroed) {
  for (const std::size_t bytes : {std::size_t{100}, 3 * kMiB}) {
    const Block first = take(bytes);
    std::memset(first.data, 0xff, bytes);
    give_back(first);
    const Block again = take(bytes);
    ASSERT_EQ(again.data, first.data) << "else this test shows nothing";
    EXPECT_TRUE(holds(again, std::byte{0}));
    give_back(again);
  }
}

TEST(SharedArena, NeighboursJoinWhateverTheOrder) {
  std::mt19937_64 random(test::test_seed());
  std::vector<Block> blocks;
  for (int step = 0; step < 2000; ++step) {
    if (blocks.empty() || random() % 5 < 3) {
      blocks.push_back(take(draw_size(random)));
      ASSERT_NE(blocks.back().data, nullptr);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      give_back(blocks.back());
      blocks.pop_back();
    }
  }
  EXPECT_FALSE(is_whole());
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const Block& block : blocks) give_back(block);
  EXPECT_TRUE(is_whole());
}

TEST(SharedArena, MoreThanThereIsIsRefused) {
  for (const std::size_t bytes : {arena().size() + 1, ~std::size_t{0}}) {
    const Result<std::byte*> block = arena().allocate(bytes);
    ASSERT_FALSE(block.ok());
    EXPECT_EQ(block.status().code(), Code::out_of_resources);
    EXPECT_NE(block.status().text().find(std::to_string(bytes)), std::string::npos);
  }
  const Block small = take(1);
  const Result<std::byte*> all = arena().allocate(arena().size());
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.status().code(), Code::out_of_resources);
  EXPECT_NE(all.status().text().find("ulimit -v"), std::string::npos) << all.status().text();
  give_back(small);
}

TEST(SharedArena, TheLibraryLeavesHalfOfItToUsers) {
  const std::size_t quarter = (*SharedArena::of_this_process())->size() / 4;
  constexpr ArenaUse kUses[] = {ArenaUse::messages, ArenaUse::calls};
  for (const ArenaUse use : kUses) EXPECT_EQ(SharedArena::own(quarter + 1, use), nullptr);
  for (int time = 0; time < 2; ++time) {
    std::vector<SharedArena::OwnedBlock> blocks;
    for (const ArenaUse use : kUses) {
      blocks.push_back(SharedArena::own(quarter, use));
      EXPECT_NE(blocks.back(), nullptr) << "what was refused, or freed, is free";
      EXPECT_EQ(SharedArena::own(1, use), nullptr);
    }
  }
}

TEST(SharedArena, OnlyWhatIsInUseIsFreed) {
  const Block block = take(3 * 4096);
  const Block other = take(4096);
  int local = 0;
  std::byte* begin = block.data - *offset_of(block.data, 1);
  for (std::byte* wrong : {block.data + 1, block.data + 4096, reinterpret_cast<std::byte*>(&local),
                           begin - 1, begin + arena().size(), static_cast<std::byte*>(nullptr)}) {
    EXPECT_EQ(arena().free(wrong).code(), Code::invalid_argument);
  }
  give_back(block);
  EXPECT_EQ(arena().free(block.data).code(), Code::invalid_argument) << "a second time";
  give_back(other);
  EXPECT_TRUE(is_whole());
}

TEST(SharedArena, ThreadsAtOnce) {
  const std::uint64_t seed = test::test_seed();
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 4; ++id) {
    threads.emplace_back([=] {
      std::mt19937_64 random(seed + id);
      std::vector<Block> blocks;
      for (int step = 0; step < 300; ++step) {
        blocks.push_back(take(draw_size(random) % kMiB));
        ASSERT_TRUE(holds(blocks.back(), std::byte{0}));
        std::memset(blocks.back().data, static_cast<int>(id), blocks.back().bytes);
        if (random() % 2 == 0) continue;
        std::swap(blocks[random() % blocks.size()], blocks.back());
        EXPECT_TRUE(holds(blocks.back(), static_cast<std::byte>(id)));
        give_back(blocks.back());
        blocks.pop_back();
      }
      for (const Block& block : blocks) {
        EXPECT_TRUE(holds(block, static_cast<std::byte>(id)));
        give_back(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(is_whole());
}

TEST(SharedArena, AnAddressIsAnOffsetWithinItAndNowhereElse) {
  const Block block = take(4096);
  const std::size_t size = arena().size();
  std::byte* begin = block.data - *offset_of(block.data, 1);
  EXPECT_EQ(offset_of(begin, 1), 0U);
  EXPECT_EQ(offset_of(begin, SharedPlace::kWindow), 0U);
  EXPECT_EQ(offset_of(begin + size - 1, 1), size - 1);
  EXPECT_EQ(offset_of(block.data + 10, 100), *offset_of(block.data, 1) + 10);
  EXPECT_EQ(offset_of(begin - 1, 1), std::nullopt);
  EXPECT_EQ(offset_of(begin - 1, 2), std::nullopt);
  EXPECT_EQ(offset_of(begin + size, 1), std::nullopt);
  EXPECT_EQ(offset_of(begin + size - 1, 2), std::nullopt);
  EXPECT_EQ(offset_of(begin, size + 1), std::nullopt);
  EXPECT_EQ(offset_of(begin + 1, ~std::size_t{0}), std::nullopt);
  EXPECT_EQ(offset_of(nullptr, 1), std::nullopt);
  give_back(block);
}

std::size_t bytes_in_use() {
  struct stat status {};
  COLL_CHECK(::fstat(static_cast<int>(arena().place().descriptor), &status) == 0, "fstat");
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(SharedArena, APageIsMemoryFromItsTouchToItsFree) {
  const std::size_t before = bytes_in_use();
  const Block block = take(64 * kMiB);
  EXPECT_EQ(bytes_in_use(), before);
  std::memset(block.data, 1, 16 * kMiB);
  EXPECT_GE(bytes_in_use(), before + 16 * kMiB);
  EXPECT_LT(bytes_in_use(), before + 32 * kMiB);
  give_back(block);
  EXPECT_EQ(bytes_in_use(), before);
}

TEST(SharedArena, AForkMakesItsOwn) {
  const Block block = take(4096);
  SharedArena& parents = arena();
  std::memset(block.data, 7, block.bytes);
  EXPECT_EQ(in_child([&] {
              if (arena().free(block.data).ok()) return 1;  // the parent's
              if (parents.free(block.data).ok()) return 5;
              if (!is_whole()) return 2;
              const Block own = take(4096);
              if (!holds(own, std::byte{0})) return 3;
              std::memset(own.data, 8, own.bytes);
              return offset_of(own.data, own.bytes) ? 0 : 4;
            }),
            0);
  EXPECT_TRUE(holds(block, std::byte{7}));
  give_back(block);
  EXPECT_TRUE(is_whole());
}

TEST(SharedArena, AForkMayComeWhileAThreadAsksForIt) {
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) (void)arena();
  });
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    EXPECT_EQ(in_child([] { return is_whole() ? 0 : 1; }), 0) << "14: it waited in vain";
  }
  stop = true;
  thread.join();
}

TEST(SharedArena, AForkLetsGoOfItsParentsMemory) {
  struct stat parents {};
  ASSERT_EQ(::fstat(static_cast<int>(arena().place().descriptor), &parents), 0);
  EXPECT_EQ(in_child([&] {
              (void)arena();
              for (int fd = 0; fd < 100; ++fd) {
                struct stat status {};
                if (::fstat(fd, &status) == 0 && status.st_ino == parents.st_ino &&
                    status.st_dev == parents.st_dev) {
                  return 1;
                }
              }
              return 0;
            }),
            0);
}

/// Of the mapping of the arena, as the kernel says them.
std::string flags_of_mapping() {
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:coll-arena") != std::string::npos) found = true;
    if (found && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

// A core dump touches every page that it writes: it would take twice the memory of the machine.
TEST(SharedArena, ACoreDumpLeavesItOut) {
  (void)arena();
  EXPECT_NE(flags_of_mapping().find(" dd "), std::string::npos) << flags_of_mapping();
}

/// In a child: the arena's size under a limit, 0 if there is none and the failure says `word`.
std::size_t size_under(int resource, rlim_t limit, const char* word) {
  std::array<int, 2> ends{};
  COLL_CHECK(::pipe(ends.data()) == 0, "pipe");
  std::size_t size = ~std::size_t{0};
  EXPECT_EQ(in_child([&] {
              rlimit both{limit, limit};
              if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &both) != 0) return 1;
              const Result<SharedArena*> made = SharedArena::of_this_process();
              size = made.ok() ? (*made)->size() : 0;
              if (!made.ok() && (made.status().code() != Code::out_of_resources ||
                                 made.status().text().find(word) == std::string::npos)) {
                std::cerr << made.status().text() << "\n";
                return 2;
              }
              return ::write(ends[1], &size, sizeof size) == sizeof size ? 0 : 3;
            }),
            0);
  ::close(ends[1]);
  COLL_CHECK(::read(ends[0], &size, sizeof size) == sizeof size, "the child said nothing");
  ::close(ends[0]);
  return size;
}

/// Bytes of address space in use.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

TEST(SharedArena, ShortAddressSpaceGivesASmallerOneOrNone) {
  const std::size_t mine = address_space() - arena().size();  // a child starts without
  const std::size_t some = size_under(RLIMIT_AS, mine + 3072 * kMiB, "");
  EXPECT_GE(some, 1024 * kMiB);
  EXPECT_LE(some, 3072 * kMiB);
  EXPECT_EQ(size_under(RLIMIT_AS, mine + 64 * kMiB, "ulimit -v"), 0U);
}

TEST(SharedArena, ShortFilesGiveASmallerOneOrNone) {
  EXPECT_EQ(size_under(RLIMIT_FSIZE, 3000 * kMiB, ""), 2048 * kMiB);
  EXPECT_EQ(size_under(RLIMIT_FSIZE, kMiB, "ulimit -f"), 0U);
  EXPECT_EQ(size_under(RLIMIT_FSIZE, 0, "ulimit -f"), 0U);
}

}  // namespace
}  // namespace coll
