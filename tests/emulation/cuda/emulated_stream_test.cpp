// SPDX-License-Identifier: Apache-2.0
// Streams, events and host functions.
#include <atomic>
#include <thread>

#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_stream_test {
namespace {

using namespace emulation_test;

TEST(EmulatedStreams, RunInOrderBesideTheHost) {
  const OnDevice device;
  const TestStream stream;
  Gate gate(stream);
  std::vector<int> order;
  struct Note {
    std::vector<int>* order;
    int number;
  } notes[] = {{&order, 1}, {&order, 2}};
  for (Note& note : notes) {
    EXPECT_CUDA_OK(cuLaunchHostFunc(
        stream,
        [](void* one) {
          static_cast<Note*>(one)->order->push_back(static_cast<Note*>(one)->number);
        },
        &note));
  }
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  gate.open();
  stream.synchronize();
  EXPECT_CUDA_OK(cuStreamQuery(stream));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EmulatedStreams, KnowTheirContextAndPriority) {
  const OnDevice device;
  CUstream stream = nullptr;
  int least = 0, greatest = 0, priority = 1;
  EXPECT_CUDA_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_CUDA_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
  EXPECT_CUDA_OK(cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  CUcontext context = nullptr;
  EXPECT_CUDA_OK(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, device.context());
  EXPECT_CUDA_OK(cuStreamDestroy_v2(stream));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 99));
}

TEST(EmulatedStreams, OfNoHandleAreTheDefaultStream) {
  const OnDevice device;
  const TestMemory<int> memory(1);
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 4, 1, nullptr));
  EXPECT_CUDA_OK(cuStreamSynchronize(nullptr));
  EXPECT_EQ(memory.read()[0], 4);
}

/// A stream that follows the default stream waits for it, and it for them; others do not.
TEST(EmulatedStreams, FollowTheDefaultStream) {
  const OnDevice device;
  const TestMemory<int> memory(1);
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 1, 1, nullptr));  // the default stream is there
  CUstream follows = nullptr;
  EXPECT_CUDA_OK(cuStreamCreate(&follows, 0));
  const TestStream alone;
  const TestEvent first, second, third;
  {
    Gate gate(follows);
    EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 2, 1, nullptr));
    EXPECT_CUDA_OK(cuEventRecord(first, nullptr));
    EXPECT_CUDA_OK(cuEventRecord(second, follows));
    EXPECT_CUDA_OK(cuEventRecord(third, alone));
    EXPECT_CUDA_OK(cuEventSynchronize(third));
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(first));
    gate.open();
    EXPECT_CUDA_OK(cuEventSynchronize(first));
    EXPECT_CUDA_OK(cuStreamSynchronize(follows));
  }
  {
    Gate gate(nullptr);
    EXPECT_CUDA_OK(cuEventRecord(second, follows));
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(second));
    gate.open();
    EXPECT_CUDA_OK(cuEventSynchronize(second));
  }
  EXPECT_EQ(memory.read()[0], 2);
  EXPECT_CUDA_OK(cuStreamDestroy_v2(follows));
}

TEST(EmulatedStreams, FinishTheirWorkAfterTheirEnd) {
  const OnDevice device;
  CUstream stream = nullptr;
  EXPECT_CUDA_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(stream);
  const TestEvent after;
  EXPECT_CUDA_OK(cuEventRecord(after, stream));
  EXPECT_CUDA_OK(cuStreamDestroy_v2(stream));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(after));
  gate.open();
  EXPECT_CUDA_OK(cuEventSynchronize(after));
  EXPECT_CUDA_OK(cuCtxSynchronize());
}

TEST(EmulatedHostFunctions, MayNotCallTheDriver) {
  const OnDevice device;
  const TestStream stream;
  CUresult result = CUDA_SUCCESS;
  EXPECT_CUDA_OK(cuLaunchHostFunc(
      stream,
      [](void* into) {
        CUdeviceptr pointer = 0;
        *static_cast<CUresult*>(into) = cuda().cuMemAlloc_v2(&pointer, 4);
      },
      &result));
  stream.synchronize();
  if (!is_emulated()) GTEST_SKIP() << "a real driver may allow it: it only forbids it in writing";
  EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
}

TEST(EmulatedEvents, HoldAStreamUpUntilAnotherGetsThere) {
  const OnDevice device;
  const TestStream first, second;
  const TestEvent event;
  const TestMemory<int> memory(1);
  EXPECT_CUDA_OK(cuEventQuery(event));  // never recorded
  EXPECT_CUDA_OK(cuStreamWaitEvent(second, event, 0));
  second.synchronize();

  Gate gate(first);
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 7, 1, first));
  EXPECT_CUDA_OK(cuEventRecord(event, first));
  EXPECT_CUDA_OK(cuStreamWaitEvent(second, event, 0));
  int read = 0;
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(&read, memory.at(), 4, second));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
  gate.open();
  second.synchronize();
  EXPECT_EQ(read, 7);
  EXPECT_CUDA_OK(cuEventQuery(event));
}

TEST(EmulatedEvents, AreWhatTheyWereWhenSomebodyBeganToWait) {
  const OnDevice device;
  const TestStream first, second, third;
  const TestEvent event;
  EXPECT_CUDA_OK(cuEventRecord(event, first));
  EXPECT_CUDA_OK(cuStreamWaitEvent(second, event, 0));
  Gate gate(third);
  EXPECT_CUDA_OK(cuEventRecord(event, third));
  second.synchronize();  // it does not wait for the later recording
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  gate.open();
  EXPECT_CUDA_OK(cuEventSynchronize(event));
}

TEST(EmulatedEvents, MayBeDestroyedWhileAStreamWaits) {
  const OnDevice device;
  const TestStream first, second;
  Gate gate(first);
  {
    const TestEvent event;
    EXPECT_CUDA_OK(cuEventRecord(event, first));
    EXPECT_CUDA_OK(cuStreamWaitEvent(second, event, 0));
  }
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
  gate.open();
  second.synchronize();
}

TEST(EmulatedEvents, MeasureTime) {
  const OnDevice device;
  const TestStream stream;
  const TestEvent begin(0), end(0), untimed;
  float time = -1;
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&time, begin, end));
  EXPECT_CUDA_OK(cuEventRecord(begin, stream));
  Gate gate(stream);
  EXPECT_CUDA_OK(cuEventRecord(end, stream));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventElapsedTime_v2(&time, begin, end));
  gate.open();
  stream.synchronize();
  EXPECT_CUDA_OK(cuEventElapsedTime(&time, begin, end));
  EXPECT_GE(time, 0);
  EXPECT_LT(time, 30'000);
  EXPECT_CUDA_OK(cuEventRecord(untimed, stream));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&time, begin, untimed));
}

TEST(EmulatedMemory, IsNotFreedUnderAStream) {
  const OnDevice device;
  if (!is_emulated()) GTEST_SKIP() << "of a real driver it is not documented";
  const TestStream stream;
  CUdeviceptr pointer = 0;
  EXPECT_CUDA_OK(cuMemAlloc_v2(&pointer, 1000));
  Gate gate(stream);
  EXPECT_CUDA_OK(cuMemsetD8Async(pointer, 1, 1000, stream));
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    opened = true;
    gate.open();
  });
  EXPECT_CUDA_OK(cuMemFree_v2(pointer));
  EXPECT_TRUE(opened);
  opener.join();
}

TEST(EmulatedStreams, TakeManyOperations) {
  const OnDevice device;
  const TestStream first, second;
  const TestMemory<int> memory(2);
  const TestEvent event;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), static_cast<unsigned>(i), 1, first));
    EXPECT_CUDA_OK(cuEventRecord(event, first));
    EXPECT_CUDA_OK(cuStreamWaitEvent(second, event, 0));
    EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(memory.at(1), memory.at(), 4, second));
    EXPECT_CUDA_OK(cuEventRecord(event, second));
    EXPECT_CUDA_OK(cuStreamWaitEvent(first, event, 0));
  }
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(memory.read(), (std::vector<int>{1999, 1999}));
}

}  // namespace
}  // namespace emulated_stream_test
