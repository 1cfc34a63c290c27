// SPDX-License-Identifier: Apache-2.0
// A deadlock of streams reports itself. Only the emulation does that.
#include <chrono>
#include <cstdlib>

#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_watchdog_test {
namespace {

using namespace emulation_test;

void wait_forever() {
  setenv("EMUCUDA_WATCHDOG_S", "0.2", 1);  // read when the driver begins
  const OnDevice device;
  const TestStream waiting, following, idle;
  const TestMemory<unsigned> word(std::vector<unsigned>{3});
  const TestEvent event;
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(waiting, word.at(), 8, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_CUDA_OK(cuEventRecord(event, waiting));
  EXPECT_CUDA_OK(cuStreamWaitEvent(following, event, 0));
  following.synchronize();
}

TEST(EmulatedWatchdogDeathTest, SaysWhoWaitsForWhat) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      wait_forever(),
      "no stream has moved for 0.2 s.*0 of 2 operations done: waits for at least 8 in the word at "
      "0x[0-9a-f]*, which has 3\n.*0 of 1 operations done: waits for an event");
}

/// One stream waits for longer than the limit, while another moves.
TEST(EmulatedWatchdog, LetsWorkGoOn) {
  if (!is_emulated()) GTEST_SKIP() << "a real driver has none";
  setenv("EMUCUDA_WATCHDOG_S", "1", 1);
  const OnDevice device;
  const TestStream waiting, moving;
  const TestMemory<unsigned> words(2);
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(waiting, words.at(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  unsigned last = 0;
  while (std::chrono::steady_clock::now() < end) {
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(moving, words.at(1), ++last, 0));
    moving.synchronize();
  }
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(moving, words.at(0), 1, 0));
  waiting.synchronize();
  EXPECT_EQ(words.read(), (std::vector<unsigned>{1, last}));
}

}  // namespace
}  // namespace emulated_watchdog_test
