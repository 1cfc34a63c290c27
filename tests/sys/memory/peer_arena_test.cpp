// SPDX-License-Identifier: Apache-2.0
// The arena of another process, of which there is one for all who are passed it.
#include "sys/memory/peer_arena.hpp"

#include <gtest/gtest.h>
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

}  // namespace
}  // namespace coll
