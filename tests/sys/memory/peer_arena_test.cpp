// SPDX-License-Identifier: Apache-2.0
// The arena of another process, of which there is one for all who are passed it.
#include "sys/memory/peer_arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "sys/memory/memory_segment.hpp"

namespace coll {
namespace {

constexpr std::size_t kBytes = 4096;

Fd passed(const Fd& memory) {
  return Fd(::dup(memory.get()));
}

TEST(PeerArena, IsMappedOnceForAllWhoArePassedIt) {
  const auto memory = MemorySegment::create("coll-test", kBytes);
  const auto another = MemorySegment::create("coll-test", kBytes);
  ASSERT_TRUE(memory.ok() && another.ok());
  auto one = PeerArena::of(passed(*memory));
  const auto other = PeerArena::of(passed(*memory));
  const auto write = one->window(0, PeerAccess::write), read = one->window(0, PeerAccess::read);
  ASSERT_TRUE(write.ok() && read.ok());
  EXPECT_EQ(other->window(10, PeerAccess::write)->data, write->data);
  EXPECT_EQ(other->window(10, PeerAccess::read)->data, read->data);
  one.reset();
  std::memcpy(write->data, "here", 4);
  EXPECT_EQ(std::memcmp(read->data, "here", 4), 0);
  EXPECT_EQ(PeerArena::of(passed(*another))->window(0, PeerAccess::read)->data[0], std::byte{0});
}

TEST(PeerArena, EndsWithTheLastOfThem) {
  const auto memory = MemorySegment::create("coll-test", kBytes);
  ASSERT_TRUE(memory.ok());
  auto one = PeerArena::of(passed(*memory)), other = PeerArena::of(passed(*memory));
  const std::weak_ptr<PeerArena> arena = one;
  one.reset();
  EXPECT_FALSE(arena.expired());
  other.reset();
  EXPECT_TRUE(arena.expired());
  EXPECT_TRUE(PeerArena::of(passed(*memory))->window(0, PeerAccess::read).ok());
}

TEST(PeerArena, UnmapsItsWindowsAtItsEnd) {
  const auto memory = MemorySegment::create("coll-test", kBytes);
  ASSERT_TRUE(memory.ok());
  auto arena = PeerArena::of(passed(*memory));
  const auto write = arena->window(0, PeerAccess::write), read = arena->window(0, PeerAccess::read);
  ASSERT_TRUE(write.ok() && read.ok());
  const auto is_mapped = [](const PeerWindow& window) {
    unsigned char page = 0;
    return ::mincore(window.data, kBytes, &page) == 0;
  };
  EXPECT_TRUE(is_mapped(*write) && is_mapped(*read));
  arena.reset();
  EXPECT_FALSE(is_mapped(*write) || is_mapped(*read));
}

/// Who was found to have it keeps it: nothing is opened for the next communicator.
TEST(PeerArena, AsksOnceWhoseItIs) {
  const auto memory = MemorySegment::create("coll-test", kBytes);
  ASSERT_TRUE(memory.ok());
  auto mine = std::make_unique<Fd>(passed(*memory));
  struct stat status {};
  ASSERT_EQ(::fstat(mine->get(), &status), 0);
  const SharedPlace place{
      .segment = SharedPlace::kArena, .descriptor = mine->get(), .inode = status.st_ino};
  const auto arena = PeerArena::of(passed(*memory));
  EXPECT_FALSE(arena->is_of(0, place));
  EXPECT_FALSE(
      arena->is_of(::getpid(), {.descriptor = place.descriptor, .inode = place.inode + 1}));
  EXPECT_TRUE(arena->is_of(::getpid(), place));
  mine.reset();
  EXPECT_TRUE(arena->is_of(::getpid(), place));
  EXPECT_FALSE(
      PeerArena::of(passed(*MemorySegment::create("coll-test", kBytes)))->is_of(::getpid(), place));
}

}  // namespace
}  // namespace coll
