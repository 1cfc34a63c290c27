// SPDX-License-Identifier: Apache-2.0
// Streams that wait for words of memory and write them.
#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_words_test {
namespace {

using namespace emulation_test;

/// A stream waits for a word. Another writes values that do not satisfy it, then one that does.
template <class Word>
void expect_wait(unsigned flags, Word value, std::vector<Word> wrong, Word right) {
  const OnDevice device;
  const TestStream waiting, writing;
  const TestMemory<Word> word(1);
  const auto write = [&](Word now) {
    if constexpr (sizeof(Word) == 4) {
      EXPECT_CUDA_OK(cuStreamWriteValue32_v2(writing, word.at(), now, 0));
    } else {
      EXPECT_CUDA_OK(cuStreamWriteValue64_v2(writing, word.at(), now, 0));
    }
    writing.synchronize();
  };
  write(wrong[0]);
  if constexpr (sizeof(Word) == 4) {
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(waiting, word.at(), value, flags));
  } else {
    EXPECT_CUDA_OK(cuStreamWaitValue64_v2(waiting, word.at(), value, flags));
  }
  for (const Word one : wrong) {
    write(one);
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting)) << one;
  }
  write(right);
  waiting.synchronize();
}

TEST(EmulatedWords, AreWaitedForInEachWay) {
  expect_wait<std::uint32_t>(CU_STREAM_WAIT_VALUE_GEQ, 5, {0, 4, 0xffffffff}, 6);
  expect_wait<std::uint32_t>(CU_STREAM_WAIT_VALUE_GEQ, 0xfffffffe, {0xfffffffd},
                             1);  // numbers wrap around
  expect_wait<std::uint32_t>(CU_STREAM_WAIT_VALUE_EQ, 5, {4, 6}, 5);
  expect_wait<std::uint32_t>(CU_STREAM_WAIT_VALUE_AND, 6, {0, 1, 8}, 2);
  expect_wait<std::uint32_t>(CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0, {0xf, 0x1f}, 0xe);
}

TEST(EmulatedWords, Of64BitsToo) {
  constexpr std::uint64_t kBig = 1ULL << 40U;
  expect_wait<std::uint64_t>(CU_STREAM_WAIT_VALUE_GEQ, kBig, {0, kBig - 1}, kBig);
  expect_wait<std::uint64_t>(CU_STREAM_WAIT_VALUE_EQ, kBig, {0, kBig + 1}, kBig);
  expect_wait<std::uint64_t>(CU_STREAM_WAIT_VALUE_AND, kBig, {kBig - 1}, 3 * kBig);
  expect_wait<std::uint64_t>(CU_STREAM_WAIT_VALUE_NOR, ~kBig, {kBig}, 1);
}

TEST(EmulatedWords, MayBeWrittenByCopies) {
  const OnDevice device;
  const TestStream waiting, writing;
  const TestMemory<unsigned> word(1), one(std::vector<unsigned>{1});
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(waiting, word.at(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  writing.synchronize();
#ifndef SANITIZED  // the copy of a word that another stream reads is a race by C++'s rules
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(word.at(), one.at(), 4, writing));
#else
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(writing, word.at(), 1, 0));
#endif
  waiting.synchronize();
  writing.synchronize();
}

TEST(EmulatedWords, ComeInBatches) {
  const OnDevice device;
  const TestStream first, second;
  const TestMemory<std::uint64_t> words(3);
  CUstreamBatchMemOpParams there[] = {
      {CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at(0), 5, 0, 0, 0},
      {CU_STREAM_MEM_OP_WAIT_VALUE_64, words.at(1), 6, CU_STREAM_WAIT_VALUE_EQ, 0, 0},
      {CU_STREAM_MEM_OP_BARRIER, 0, 0, 0, 0, 0},
      {CU_STREAM_MEM_OP_WRITE_VALUE_64, words.at(2), 7, 0, 0, 0},
  };
  CUstreamBatchMemOpParams back[] = {
      {CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at(0), 5, CU_STREAM_WAIT_VALUE_GEQ, 0, 0},
      {CU_STREAM_MEM_OP_WRITE_VALUE_64, words.at(1), 6, 0, 0, 0},
  };
  EXPECT_CUDA_OK(cuStreamBatchMemOp_v2(first, is_emulated() ? 4 : 2, there, 0));
  if (!is_emulated()) {
    EXPECT_CUDA_OK(cuStreamBatchMemOp_v2(first, 1, there + 3, 0));
  }
  EXPECT_CUDA_OK(cuStreamBatchMemOp_v2(second, 2, back, 0));
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(words.read(), (std::vector<std::uint64_t>{5, 6, 7}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(first, 257, there, 0));
}

TEST(EmulatedWords, AreAlignedAndOfTheDriver) {
  const OnDevice device;
  const TestStream stream;
  const TestMemory<std::uint64_t> word(2);
  std::uint64_t here = 0;
  const auto host = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(&here));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, word.at() + 2, 0, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64_v2(stream, word.at() + 4, 0, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, host, 0, 0));
}

TEST(EmulatedWords, PlayPingPong) {
  const OnDevice device;
  const TestStream first, second;
  const TestMemory<std::uint32_t> ping(1), pong(1);
  constexpr std::uint32_t kRounds = 200;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(first, ping.at(), round, 0));
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(first, pong.at(), round, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(second, ping.at(), round, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(second, pong.at(), round, 0));
  }
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(pong.read()[0], kRounds);
}

}  // namespace
}  // namespace emulated_words_test
