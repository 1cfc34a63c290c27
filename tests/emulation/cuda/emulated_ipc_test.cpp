// SPDX-License-Identifier: Apache-2.0
// Memory and events of other processes.
#include "emulation/cuda/cuda_on_test.hpp"
#include "emulation/cuda/other_process.hpp"

namespace emulated_ipc_test {
namespace {

using namespace emulation_test;

constexpr int kCount = 1000;

/// The first process owns memory and an event; the second opens both.
TEST(EmulatedIpc, SharesMemoryAndEvents) {
  const OtherProcess other("EmulatedIpc.DISABLED_Opens");
  const OnDevice device;
  const TestStream stream;
  const TestMemory<int> memory(kCount);
  const TestEvent event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  CUipcMemHandle handle{};
  CUipcEventHandle event_handle{};
  EXPECT_CUDA_OK(cuIpcGetMemHandle(&handle, memory.at(10)));
  EXPECT_CUDA_OK(cuIpcGetEventHandle(&event_handle, event));
  CUdeviceptr own = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT,
              cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  other.link().send(handle);
  other.link().send(event_handle);
  other.link().meet();  // both are open

  // The other's stream waits for this event, then adds to what it finds.
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 5, kCount, stream));
  EXPECT_CUDA_OK(cuEventRecord(event, stream));
  other.link().meet();
  // It writes the word back when it is done.
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, memory.at(0), 6, CU_STREAM_WAIT_VALUE_EQ));
  stream.synchronize();
  EXPECT_EQ(memory.read(), [] {
    std::vector<int> expected(kCount, 7);
    expected[0] = 6;
    return expected;
  }());
  other.link().meet();
}

TEST(EmulatedIpc, DISABLED_Opens) {
  const ProcessLink link(kSocketOfOther);
  const OnDevice device;
  const TestStream stream;
  const auto handle = link.receive<CUipcMemHandle>();
  const auto event_handle = link.receive<CUipcEventHandle>();
  CUdeviceptr pointer = 0, again = 0;
  EXPECT_CUDA_OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_CUDA_OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_EQ(again, pointer);
  EXPECT_CUDA_OK(cuIpcCloseMemHandle(again));  // it stays open
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_CUDA_OK(cuMemGetAddressRange_v2(&base, &bytes, pointer + 8));
  EXPECT_EQ(base, pointer) << "a handle is of the whole allocation";
  if (is_emulated()) {
    EXPECT_EQ(bytes, kCount * sizeof(int));
  }
  CUevent event = nullptr;
  EXPECT_CUDA_OK(cuIpcOpenEventHandle(&event, event_handle));
  EXPECT_CUDA_OK(cuEventQuery(event));
  link.meet();

  link.meet();
  EXPECT_CUDA_OK(cuStreamWaitEvent(stream, event, 0));
  int read = 0;
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(&read, pointer + 4 * (kCount - 1), 4, stream));
  EXPECT_CUDA_OK(cuMemsetD32Async(pointer + 4, 7, kCount - 1, stream));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, pointer, 6, 0));
  stream.synchronize();
  EXPECT_EQ(read, 5);
  link.meet();
  EXPECT_CUDA_OK(cuEventDestroy_v2(event));
  EXPECT_CUDA_OK(cuIpcCloseMemHandle(pointer));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(pointer));
}

TEST(EmulatedIpc, OutlivesNoOwner) {
  const OnDevice device;
  if (!is_emulated()) GTEST_SKIP() << "the error of a real driver is not documented";
  CUipcMemHandle handle{};
  {
    const OtherProcess other("EmulatedIpc.DISABLED_LeavesAHandle");
    handle = other.link().receive<CUipcMemHandle>();
  }
  CUdeviceptr pointer = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE,
              cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  const CUipcMemHandle garbage{};
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuIpcOpenMemHandle_v2(&pointer, garbage, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

TEST(EmulatedIpc, DISABLED_LeavesAHandle) {
  const ProcessLink link(kSocketOfOther);
  const OnDevice device;
  const TestMemory<int> memory(1);
  CUipcMemHandle handle{};
  EXPECT_CUDA_OK(cuIpcGetMemHandle(&handle, memory.at()));
  link.send(handle);
}

/// Words in the memory of the other process, all operations queued at once.
TEST(EmulatedIpc, PlaysPingPong) {
  const OtherProcess other("EmulatedIpc.DISABLED_PlaysBack");
  const OnDevice device;
  const TestStream stream;
  const TestMemory<unsigned> own(1);
  CUipcMemHandle handle{};
  EXPECT_CUDA_OK(cuIpcGetMemHandle(&handle, own.at()));
  other.link().send(handle);
  const auto theirs = other.link().receive<CUipcMemHandle>();
  CUdeviceptr there = 0;
  EXPECT_CUDA_OK(cuIpcOpenMemHandle_v2(&there, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  for (unsigned round = 1; round <= 100; ++round) {
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, there, round, 0));
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, own.at(), round, CU_STREAM_WAIT_VALUE_GEQ));
  }
  stream.synchronize();
  EXPECT_EQ(own.read()[0], 100U);
  EXPECT_CUDA_OK(cuIpcCloseMemHandle(there));
  other.link().meet();
}

TEST(EmulatedIpc, DISABLED_PlaysBack) {
  const ProcessLink link(kSocketOfOther);
  const OnDevice device;
  const TestStream stream;
  const TestMemory<unsigned> own(1);
  CUipcMemHandle handle{};
  EXPECT_CUDA_OK(cuIpcGetMemHandle(&handle, own.at()));
  link.send(handle);
  const auto theirs = link.receive<CUipcMemHandle>();
  CUdeviceptr there = 0;
  EXPECT_CUDA_OK(cuIpcOpenMemHandle_v2(&there, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  for (unsigned round = 1; round <= 100; ++round) {
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, own.at(), round, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, there, round, 0));
  }
  stream.synchronize();
  link.meet();
  EXPECT_CUDA_OK(cuIpcCloseMemHandle(there));
}

TEST(EmulatedIpc, WantsEventsThatAreMadeForIt) {
  const OnDevice device;
  CUevent event = nullptr;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
  const TestEvent plain;
  CUipcEventHandle handle{};
  const CUresult result = cuda().cuIpcGetEventHandle(&handle, plain);
  EXPECT_NE(result, CUDA_SUCCESS);
  if (is_emulated()) {
    EXPECT_EQ(result, CUDA_ERROR_INVALID_HANDLE);
  }
}

}  // namespace
}  // namespace emulated_ipc_test
