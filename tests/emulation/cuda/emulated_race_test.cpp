// SPDX-License-Identifier: Apache-2.0
// A bug that is planted: a stream reads what another one writes, and nothing orders the two. The
// thread sanitizer must find it, or it would not find the library's.
#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "emulation/cuda/cuda_on_test.hpp"

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define RACES_ARE_FOUND
#endif
#elif defined(__SANITIZE_THREAD__)
#define RACES_ARE_FOUND
#endif

namespace emulated_race_test {
namespace {

using namespace emulation_test;

enum class Order { none, event, word };

/// What the second stream has read. It always begins after the first has written: a relaxed flag,
/// which orders nothing, sees to that. So only the order that `by` makes differs, not the time.
std::array<unsigned, 2> written_and_read(Order by) {
  constexpr unsigned kValue = 7;
  const OnDevice device;
  const TestStream writer, reader;
  const TestMemory<unsigned> shared(1), read(1), word(1);
  const TestEvent written;
  std::atomic<bool> is_written{false};
  EXPECT_CUDA_OK(cuMemsetD32Async(shared.at(), kValue, 1, writer));
  if (by == Order::event) {
    EXPECT_CUDA_OK(cuEventRecord(written, writer));
  } else if (by == Order::word) {
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(writer, word.at(), 1, 0));
  }
  EXPECT_CUDA_OK(cuLaunchHostFunc(
      writer,
      [](void* flag) {
        static_cast<std::atomic<bool>*>(flag)->store(true, std::memory_order_relaxed);
      },
      &is_written));
  EXPECT_CUDA_OK(cuLaunchHostFunc(
      reader,
      [](void* flag) {
        while (!static_cast<std::atomic<bool>*>(flag)->load(std::memory_order_relaxed))
          std::this_thread::yield();
      },
      &is_written));
  if (by == Order::event) {
    EXPECT_CUDA_OK(cuStreamWaitEvent(reader, written, 0));
  } else if (by == Order::word) {
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(reader, word.at(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(read.at(), shared.at(), shared.bytes(), reader));
  writer.synchronize();
  reader.synchronize();
  return {kValue, read.read()[0]};
}

/// The result is right all the same, as it may be on a GPU: only the sanitizer tells.
TEST(EmulatedRaceDeathTest, MissingOrderOfStreamsIsADataRace) {
#if defined(RACES_ARE_FOUND)
  if (!is_emulated()) GTEST_SKIP() << "the sanitizer does not see what a GPU does";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ended_by_sanitizer = [](int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) != 0;
  };
  EXPECT_EXIT(
      {
        written_and_read(Order::none);
        std::exit(0);  // where a report does not end the program, it makes this 66
      },
      ended_by_sanitizer,
      "ThreadSanitizer: data race.*[Rr]ead of size 4.*Previous write of size 4");
#else
  GTEST_SKIP() << "only the thread sanitizer finds races";
#endif
}

/// With the sanitizer, a report ends this program.
TEST(EmulatedRace, AnEventOrdersStreams) {
  const auto [written, read] = written_and_read(Order::event);
  EXPECT_EQ(read, written);
}

TEST(EmulatedRace, AWordOrdersStreams) {
  const auto [written, read] = written_and_read(Order::word);
  EXPECT_EQ(read, written);
}

}  // namespace
}  // namespace emulated_race_test
