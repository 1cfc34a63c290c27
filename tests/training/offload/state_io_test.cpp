// SPDX-License-Identifier: Apache-2.0
// Transfers of states by each means: what is written is read, several go on at once, and errors
// name the file, the offset and the reason.
#include "offload/state_io.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "memory/failure.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace state_io_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<std::byte[], Free>;
Pages pages(std::size_t bytes) {
  return Pages(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
}

class StateTransfers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      io = std::make_unique<StateIo>(file, GetParam());
    } catch (const Failure& refused) {
      ASSERT_STRNE(GetParam(), "threads") << refused.what();
      GTEST_SKIP() << refused.what();
    }
  }
  static constexpr std::size_t kBytes = 3 << 20U;
  coll::test::TemporaryFolder folder;
  StateFile file{folder.path(), 0, kBytes, true};
  std::unique_ptr<StateIo> io;
};
INSTANTIATE_TEST_SUITE_P(Means, StateTransfers, ::testing::Values("io_uring", "libaio", "threads"));

TEST_P(StateTransfers, ANewFileIsZeros) {
  const Pages memory = pages(kBytes);
  std::fill_n(memory.get(), kBytes, std::byte{1});
  io->start(0, {false, memory.get(), kBytes, 0});
  io->wait(0);
  EXPECT_TRUE(std::all_of(memory.get(), memory.get() + kBytes,
                          [](std::byte one) { return one == std::byte{0}; }));
}

TEST_P(StateTransfers, WhatIsWrittenIsReadInAnyOrder) {
  std::mt19937_64 random(coll::test::test_seed());
  const Pages written = pages(kBytes), found = pages(kBytes);
  std::generate_n(written.get(), kBytes, [&] { return static_cast<std::byte>(random()); });
  const std::size_t third = kBytes / 3;
  for (const bool write : {true, false}) {
    const std::byte* memory = write ? written.get() : found.get();
    for (std::size_t i = 0; i < 3; ++i)
      io->start(i, {write, const_cast<std::byte*>(memory) + i * third, third, i * third});
    for (const std::size_t i : {2U, 0U, 1U}) io->wait(i);
  }
  EXPECT_TRUE(std::equal(written.get(), written.get() + kBytes, found.get()));
}

TEST_P(StateTransfers, AReadPastTheEndSaysWhere) {
  const Pages memory = pages(2 * kPage);
  io->start(1, {false, memory.get(), 2 * kPage, kBytes - kPage});
  try {
    io->wait(1);
    FAIL() << "it read what is not there";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr(file.name()), HasSubstr("reading 4096 bytes"),
                                      HasSubstr("offset 3145728"), HasSubstr("the file ended")));
  }
}

TEST_P(StateTransfers, AFailedWriteSaysWhyAndWhere) {
  const Pages memory = pages(kPage);
  // The descriptor is of a full device from now on.
  const int full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ASSERT_GE(::dup3(full, file.fd(), O_CLOEXEC), 0);
  ::close(full);
  io->start(0, {true, memory.get(), kPage, 8192});
  try {
    io->wait(0);
    FAIL() << "it wrote to a full device";
  } catch (const Failure& failure) {
    // Native AIO does not write to such devices at all.
    const bool aio = std::string(GetParam()) == "libaio";
    EXPECT_THAT(
        failure.what(),
        AllOf(HasSubstr(file.name()), HasSubstr("writing 4096 bytes"), HasSubstr("offset 8192"),
              HasSubstr(aio ? "errno" : "No space left on device (errno 28)")));
  }
}

TEST_P(StateTransfers, EndBeforeTheirOwner) {
  const Pages written = pages(kBytes), found = pages(kBytes);
  std::fill_n(written.get(), kBytes, std::byte{7});
  io->start(0, {true, written.get(), kBytes, 0});
  io.reset();
  std::fill_n(written.get(), kBytes, std::byte{9});  // too late to be written
  StateIo(file, "threads").start(0, {false, found.get(), kBytes, 0});
  EXPECT_TRUE(std::all_of(found.get(), found.get() + kBytes,
                          [](std::byte one) { return one == std::byte{7}; }));
}

TEST(StateIo, TheBestMeansIsFound) {
  const coll::test::TemporaryFolder folder;
  const StateFile file(folder.path(), 0, kPage, true);
  const StateIo best(file);
  for (const char* means : {"io_uring", "libaio", "threads"}) {
    try {
      EXPECT_EQ(best.means(), StateIo(file, means).means());
      break;
    } catch (const Failure&) {
      continue;  // the next is the best
    }
  }
}

TEST(StateFile, IsBufferedIfAsked) {
  const coll::test::TemporaryFolder folder;
  const StateFile file(folder.path(), 0, kPage, false);
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_DIRECT, 0);
}

}  // namespace state_io_test
}  // namespace training::test
