// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads with a stream of CUDA each, on the driver that is there.
#pragma once
#include <collectives/collectives.h>

#include <chrono>
#include <functional>
#include <thread>

#include "c_api/api_ranks.hpp"
#include "emulation/cuda/cuda_on_test.hpp"

namespace collectives::testing {

using emulation_test::cuda;
using emulation_test::is_emulated;
using emulation_test::name_of;
using emulation_test::OnDevice;
using emulation_test::TestEvent;
using emulation_test::TestMemory;
using emulation_test::TestStream;
using namespace emucuda;  // NOLINT: the driver's names

#define EXPECT_COLL(call) EXPECT_EQ(call, COLL_SUCCESS) << coll_last_error()

/// A stream of CUDA, and the same as a stream of the library.
class BothStreams {
 public:
  BothStreams() { EXPECT_COLL(coll_stream_from_cuda(&ours_, static_cast<CUstream>(cuda_))); }
  BothStreams(const BothStreams&) = delete;
  BothStreams& operator=(const BothStreams&) = delete;
  ~BothStreams() { EXPECT_COLL(coll_stream_destroy(ours_)); }
  operator CUstream() const { return cuda_; }       // NOLINT(google-explicit-constructor)
  operator coll_stream_t() const { return ours_; }  // NOLINT(google-explicit-constructor)
  void synchronize() const { cuda_.synchronize(); }

 private:
  TestStream cuda_;
  coll_stream_t ours_ = nullptr;
};

/// Runs `body` on each rank, whose device is current and which has a stream.
inline void run_streams(int size,
                        const std::function<void(coll_comm_t, int, const BothStreams&)>& body,
                        double deadline_s = 30) {
  int devices = 0;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  run_ranks(
      size,
      [&](coll_comm_t comm, int rank) {
        const OnDevice device(rank % devices);
        const BothStreams stream;
        body(comm, rank, stream);
      },
      deadline_s);
}

/// Puts values into a device's memory in the stream's order. They must stay until then.
template <class T>
void put(const std::vector<T>& values, const TestMemory<T>& memory, CUstream stream) {
  EXPECT_CUDA_OK(
      cuMemcpyHtoDAsync_v2(memory.at(), values.data(), values.size() * sizeof(T), stream));
}
template <class T>
void get(const TestMemory<T>& memory, std::vector<T>& values, CUstream stream) {
  EXPECT_CUDA_OK(
      cuMemcpyDtoHAsync_v2(values.data(), memory.at(), values.size() * sizeof(T), stream));
}

/// What runs on a stream between begin and end, as a graph.
class TestGraph {
 public:
  template <class Work>
  TestGraph(CUstream stream, Work work,
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, mode));
    work();
    EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph_));
    EXPECT_CUDA_OK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  ~TestGraph() {
    EXPECT_CUDA_OK(cuGraphExecDestroy(exec_));
    EXPECT_CUDA_OK(cuGraphDestroy(graph_));
  }
  void launch(CUstream stream) const { EXPECT_CUDA_OK(cuGraphLaunch(exec_, stream)); }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

}  // namespace collectives::testing
