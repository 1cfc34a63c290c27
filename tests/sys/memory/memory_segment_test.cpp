// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share.
#include "sys/memory/memory_segment.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "sys/child_process.hpp"

namespace coll {
namespace {

TEST(MemorySegment, TwoMappingsAreOneMemory) {
  const auto memory = MemorySegment::create("coll-test", 10'000);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  const auto one = MemorySegment::map(*memory, 10'000);
  const auto other = MemorySegment::map(*memory, 10'000);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(other->data()[9999], std::byte{0});
  one->data()[9999] = std::byte{7};
  EXPECT_EQ(other->data()[9999], std::byte{7});
}

TEST(MemorySegment, PopulatedPagesAreThereAndNoOthers) {
  constexpr std::size_t kPages = 8;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto memory = MemorySegment::create("coll-test", kPages * page);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  const auto segment = MemorySegment::map(*memory, kPages * page);
  ASSERT_TRUE(segment.ok());
  segment->data()[3 * page] = std::byte{7};
  if (!populate(segment->data() + 2 * page + 100, 2 * page)) GTEST_SKIP() << "Linux before 5.14";
  EXPECT_EQ(segment->data()[3 * page], std::byte{7});
  std::array<unsigned char, kPages> there{};
  ASSERT_EQ(mincore(segment->data(), kPages * page, there.data()), 0);
  EXPECT_EQ(there, (std::array<unsigned char, kPages>{0, 0, 1, 1, 1, 0, 0, 0}));
}

TEST(MemorySegment, AnotherSizeOrOneThatMayShrinkIsRefused) {
  const auto memory = MemorySegment::create("coll-test", 10'000);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(::ftruncate(memory->get(), 1), -1);
  EXPECT_EQ(errno, EPERM);
  const auto longer = MemorySegment::map(*memory, 10'001);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.status().code(), Code::invalid_argument);
  const Fd loose(::memfd_create("coll-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(loose.get(), 10'000), 0);
  const auto shrinks = MemorySegment::map(loose, 10'000);
  ASSERT_FALSE(shrinks.ok());
  EXPECT_NE(shrinks.status().text().find("sealed"), std::string::npos);
}

TEST(MemorySegment, OneLongerThanFilesMayBeIsAFailureAndNotASignal) {
  EXPECT_EQ(testing::in_child([] {
              const rlimit limit{10'000, 10'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              const auto longer = MemorySegment::create("coll-test", 10'001);
              if (longer.ok() || longer.status().code() != Code::out_of_resources) return 2;
              if (longer.status().text().find("ulimit -f") == std::string::npos) return 3;
              return MemorySegment::create("coll-test", 10'000).ok() ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace coll
