// SPDX-License-Identifier: Apache-2.0
// Graphs: captured, launched many times, and captures that fail.
#include <thread>

#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_graph_test {
namespace {

using namespace emulation_test;

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status{};
  EXPECT_CUDA_OK(cuStreamIsCapturing(stream, &status));
  return status;
}

class TestGraph {
 public:
  /// Ends the capture that began on the stream.
  explicit TestGraph(CUstream stream) {
    CUgraph graph = nullptr;
    EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA_OK(cuGraphInstantiateWithFlags(&exec_, graph, 0));
    EXPECT_CUDA_OK(cuGraphDestroy(graph));
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  ~TestGraph() { EXPECT_CUDA_OK(cuGraphExecDestroy(exec_)); }
  void launch(CUstream stream) const { EXPECT_CUDA_OK(cuGraphLaunch(exec_, stream)); }

 private:
  CUgraphExec exec_ = nullptr;
};

void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, mode));
}

TEST(EmulatedGraphs, RunNothingBeforeTheirLaunch) {
  const OnDevice device;
  const TestStream stream;
  const TestMemory<unsigned> memory(1);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  begin(stream);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUstreamCaptureStatus status{};
  std::uint64_t number = 0;
  CUgraph inside = nullptr;
  EXPECT_CUDA_OK(
      cuStreamGetCaptureInfo_v3(stream, &status, &number, &inside, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(number, 0U);
  EXPECT_NE(inside, nullptr);
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 3, 1, stream));
  const TestGraph graph(stream);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  stream.synchronize();
  EXPECT_EQ(memory.read()[0], 0U);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(memory.read()[0], 3U);
}

/// memory[0] -> a host function adds one and copies it -> both lanes copy -> joined.
TEST(EmulatedGraphs, AreLaunchedAHundredTimes) {
  const OnDevice device;
  const TestStream stream, side, other;
  const TestEvent fork, join;
  const TestMemory<int> memory(4);
  int counter = 0, left = 0, right = 0;
  begin(stream);
  EXPECT_CUDA_OK(cuLaunchHostFunc(
      stream, [](void* value) { ++*static_cast<int*>(value); }, &counter));
  EXPECT_CUDA_OK(cuMemcpyHtoDAsync_v2(memory.at(0), &counter, sizeof counter, stream));
  EXPECT_CUDA_OK(cuEventRecord(fork, stream));
  EXPECT_CUDA_OK(cuStreamWaitEvent(side, fork, 0));
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(memory.at(1), memory.at(0), 4, side));
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(memory.at(2), memory.at(0), 4, stream));
  EXPECT_CUDA_OK(cuEventRecord(join, side));
  EXPECT_CUDA_OK(cuStreamWaitEvent(stream, join, 0));
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(&left, memory.at(1), 4, stream));
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(&right, memory.at(2), 4, stream));
  const TestGraph graph(stream);
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
  for (int i = 1; i <= 100; ++i) {
    graph.launch(i % 2 == 0 ? stream : other);  // launches follow each other on whatever stream
    if (i % 10 != 0) continue;
    stream.synchronize();
    EXPECT_EQ(counter, i);
    EXPECT_EQ(left, i);
    EXPECT_EQ(right, i);
  }
}

/// Two lanes of one graph that talk by words. Each word goes back to 0, so the graph can run again.
TEST(EmulatedGraphs, KeepTheValuesOfWords) {
  const OnDevice device;
  const TestStream stream, side;
  const TestEvent fork, join;
  const TestMemory<unsigned> words(2), data(2);
  int runs = 0;
  begin(stream);
  EXPECT_CUDA_OK(cuEventRecord(fork, stream));
  EXPECT_CUDA_OK(cuStreamWaitEvent(side, fork, 0));
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, words.at(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, words.at(0), 0, 0));
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(data.at(1), data.at(0), 4, stream));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, words.at(1), 1, 0));
  EXPECT_CUDA_OK(cuMemsetD32Async(data.at(0), 42, 1, side));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(side, words.at(0), 1, 0));
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(side, words.at(1), 1, CU_STREAM_WAIT_VALUE_EQ));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(side, words.at(1), 0, 0));
  EXPECT_CUDA_OK(cuMemsetD32Async(data.at(0), 0, 1, side));
  EXPECT_CUDA_OK(cuEventRecord(join, side));
  EXPECT_CUDA_OK(cuStreamWaitEvent(stream, join, 0));
  EXPECT_CUDA_OK(cuLaunchHostFunc(
      stream, [](void* value) { ++*static_cast<int*>(value); }, &runs));
  const TestGraph graph(stream);
  for (int i = 0; i < 50; ++i) graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(runs, 50);
  EXPECT_EQ(data.read(), (std::vector<unsigned>{0, 42}));
}

TEST(EmulatedCaptures, MustBeJoined) {
  const OnDevice device;
  const TestStream stream, side;
  const TestEvent fork;
  const TestMemory<unsigned> memory(1);
  begin(stream);
  EXPECT_CUDA_OK(cuEventRecord(fork, stream));
  EXPECT_CUDA_OK(cuStreamWaitEvent(side, fork, 0));
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(), 1, 1, side));
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(EmulatedCaptures, AreSpoiltByASynchronization) {
  const OnDevice device;
  const TestStream stream;
  begin(stream);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  const TestEvent event;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(event, stream));
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  stream.synchronize();
}

TEST(EmulatedCaptures, AreSpoiltByAllocationsUnlessTheThreadRelaxes) {
  const OnDevice device;
  const TestStream stream;
  CUdeviceptr pointer = 0;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_CUDA_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CUDA_OK(cuMemAlloc_v2(&pointer, 4));
  EXPECT_CUDA_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  std::thread([&] {  // of any thread, in this mode
    const OnDevice here;
    CUdeviceptr more = 0;
    EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&more, 4));
  })
      .join();
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  EXPECT_CUDA_OK(cuMemFree_v2(pointer));
}

TEST(EmulatedCaptures, KeepToThemselves) {
  const OnDevice device;
  const TestStream stream, outside, other;
  const TestEvent before, inside;
  EXPECT_CUDA_OK(cuEventRecord(before, outside));
  begin(stream);
  EXPECT_CUDA_OK(cuEventRecord(inside, stream));
  EXPECT_CUDA(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(inside));
  EXPECT_CUDA(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(inside));
  CUgraph graph = nullptr;
  begin(other);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(other, inside, 0));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(other, &graph));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  begin(stream);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, before, 0));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

}  // namespace
}  // namespace emulated_graph_test
