// SPDX-License-Identifier: Apache-2.0
// Kernels. Only the emulation has those of these tests: a real driver wants code for its device.
#include "emulation/cuda/cuda_on_test.hpp"
#include "emulation/cuda/test_kernels.hpp"

namespace emulated_kernel_test {
namespace {

using namespace emulation_test;

class EmulatedKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_emulated()) GTEST_SKIP() << "a real driver cannot load them";
    EXPECT_CUDA_OK(cuModuleLoadData(&module_, "any image"));
  }
  void TearDown() override {
    if (module_ != nullptr) {
      EXPECT_CUDA_OK(cuModuleUnload(module_));
    }
  }
  CUfunction find(const char* name) {
    CUfunction function = nullptr;
    EXPECT_CUDA_OK(cuModuleGetFunction(&function, module_, name));
    return function;
  }
  template <class Params>
  static void launch(CUfunction function, Params params, CUstream stream) {
    void* pointers[] = {&params};
    EXPECT_CUDA_OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, pointers, nullptr));
  }

  const OnDevice device_;
  CUmodule module_ = nullptr;
};

TEST_F(EmulatedKernels, RunTheirTwins) {
  const TestStream stream;
  const TestMemory<float> to(std::vector<float>{1, 2, 3}), from(std::vector<float>{10, 20, 30});
  const CUfunction add = find("add_floats");
  launch(add, AddFloats{to.pointer(), from.pointer(), 3}, stream);
  launch(add, AddFloats{to.pointer(), from.pointer(), 2}, stream);
  stream.synchronize();
  EXPECT_EQ(to.read(), (std::vector<float>{21, 42, 33}));
}

TEST_F(EmulatedKernels, SeeTheirLaunch) {
  const TestStream stream;
  const TestMemory<unsigned> seen(7);
  const CUfunction note = find("note_launch");
  NoteLaunch params{seen.pointer()};
  void* pointers[] = {&params};
  CUlaunchConfig how{};
  how.gridDimX = 2;
  how.gridDimY = 3;
  how.gridDimZ = 4;
  how.blockDimX = 5;
  how.blockDimY = 6;
  how.blockDimZ = 7;
  how.sharedMemBytes = 8;
  how.hStream = stream;
  EXPECT_CUDA_OK(cuLaunchKernelEx(&how, note, pointers, nullptr));
  stream.synchronize();
  EXPECT_EQ(seen.read(), (std::vector<unsigned>{2, 3, 4, 5, 6, 7, 8}));

  std::size_t bytes = sizeof params;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  EXPECT_CUDA_OK(cuLaunchKernel(note, 9, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
  stream.synchronize();
  EXPECT_EQ(seen.read()[0], 9U);
}

TEST_F(EmulatedKernels, WithoutATwinAreNotFound) {
  CUfunction function = nullptr;
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module_, "no_such_kernel"));
}

TEST_F(EmulatedKernels, HaveTheLimitsOfADevice) {
  const TestStream stream;
  const CUfunction count = find("count_up");
  const TestMemory<int> counter(1);
  CountUp params{counter.pointer()};
  void* pointers[] = {&params};
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuLaunchKernel(count, 1, 1, 1, 1025, 1, 1, 0, stream, pointers, nullptr));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuLaunchKernel(count, 0, 1, 1, 1, 1, 1, 0, stream, pointers, nullptr));
  constexpr int kMuch = 100 << 10;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, kMuch, stream, pointers, nullptr));
  EXPECT_CUDA_OK(cuFuncSetAttribute(count, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kMuch));
  int value = 0, blocks = 0;
  EXPECT_CUDA_OK(
      cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, count));
  EXPECT_EQ(value, kMuch);
  EXPECT_CUDA_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, count));
  EXPECT_EQ(value, 1024);
  EXPECT_CUDA_OK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, kMuch, stream, pointers, nullptr));
  EXPECT_CUDA_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 512, 0));
  EXPECT_EQ(blocks, 4);
  EXPECT_CUDA_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count, 32, kMuch));
  EXPECT_EQ(blocks, 2);
  stream.synchronize();
  EXPECT_EQ(counter.read()[0], 1);
}

TEST_F(EmulatedKernels, OfSeveralStreamsRunAtOnce) {
  const TestStream streams[4];
  const TestMemory<unsigned> arrived(1);
  const CUfunction meet = find("meet");
  for (const TestStream& stream : streams) launch(meet, Meet{arrived.pointer(), 4}, stream);
  for (const TestStream& stream : streams) stream.synchronize();
  EXPECT_EQ(arrived.read()[0], 4U);
}

TEST_F(EmulatedKernels, KeepTheParametersOfTheirLaunchInAGraph) {
  const TestStream stream;
  const TestMemory<int> counter(1);
  const CUfunction count = find("count_up");
  EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch(count, CountUp{counter.pointer()}, stream);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph));
  EXPECT_CUDA_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CUDA_OK(cuGraphDestroy(graph));
  for (int i = 0; i < 100; ++i) EXPECT_CUDA_OK(cuGraphLaunch(exec, stream));
  EXPECT_CUDA_OK(cuGraphExecDestroy(exec));
  stream.synchronize();
  EXPECT_EQ(counter.read()[0], 100);
}

}  // namespace
}  // namespace emulated_kernel_test
