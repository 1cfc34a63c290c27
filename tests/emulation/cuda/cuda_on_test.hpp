// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as tests use it: found by name like any program's, with helpers that expect
// success.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "emulation/cuda/cuda_entry_points.hpp"

namespace emulation_test {

using namespace emucuda;

/// The driver's functions.
struct CudaTable {
#define EMUCUDA_MEMBER(name, parameters) decltype(&emucuda::name) name;
  EMUCUDA_ENTRY_POINTS(EMUCUDA_MEMBER)
#undef EMUCUDA_MEMBER
};

/// That of libcuda.so.1. Each function that it lacks is a failure.
inline const CudaTable& cuda() {
  static const CudaTable table = [] {
    CudaTable found{};
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    if (library == nullptr) return found;
#define EMUCUDA_FIND(name, parameters)                                        \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name)); \
  EXPECT_NE(found.name, nullptr) << #name;
    EMUCUDA_ENTRY_POINTS(EMUCUDA_FIND)
#undef EMUCUDA_FIND
    return found;
  }();
  return table;
}

/// For EXPECT_EQ, which then prints names.
inline std::string name_of(CUresult result) {
  const char* name = nullptr;
  return cuda().cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : std::to_string(result);
}
#define EXPECT_CUDA(result, call) EXPECT_EQ(name_of(result), name_of(cuda().call)) << #call
#define EXPECT_CUDA_OK(call) EXPECT_CUDA(CUDA_SUCCESS, call)

/// True where only the emulation can show what a test is about.
inline bool is_emulated() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(cuda().cuInit), &info) != 0 &&
         std::strstr(info.dli_fname, "/emulation/") != nullptr;
}

/// Why a test that needs a second GPU cannot run; empty if it can. `reached`: the two must reach
/// each other's memory, too.
inline std::string lack_of_second_gpu(bool reached) {
  int devices = 0, there = 1, back = 1;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  if (devices < 2) return "there is one GPU only";
  if (!reached) return {};
  EXPECT_CUDA_OK(cuDeviceCanAccessPeer(&there, 0, 1));
  EXPECT_CUDA_OK(cuDeviceCanAccessPeer(&back, 1, 0));
  return there != 0 && back != 0 ? "" : "the GPUs do not reach each other's memory";
}
#define NEEDS_TWO_GPUS() \
  if (const std::string lack = lack_of_second_gpu(false); !lack.empty()) GTEST_SKIP() << lack
#define NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER() \
  if (const std::string lack = lack_of_second_gpu(true); !lack.empty()) GTEST_SKIP() << lack

/// The driver is initialized, and the context of a device is current in this thread; then the one
/// before is again.
class OnDevice {
 public:
  explicit OnDevice(int device = 0) : device_(device) {
    EXPECT_CUDA_OK(cuInit(0));
    EXPECT_CUDA_OK(cuDevicePrimaryCtxRetain(&context_, device));
    EXPECT_CUDA_OK(cuCtxPushCurrent_v2(context_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    EXPECT_CUDA_OK(cuCtxPopCurrent_v2(nullptr));
    EXPECT_CUDA_OK(cuDevicePrimaryCtxRelease_v2(device_));
  }
  [[nodiscard]] CUcontext context() const { return context_; }

 private:
  int device_;
  CUcontext context_ = nullptr;
};

class TestStream {
 public:
  TestStream() { EXPECT_CUDA_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { EXPECT_CUDA_OK(cuStreamDestroy_v2(stream_)); }
  operator CUstream() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void synchronize() const { EXPECT_CUDA_OK(cuStreamSynchronize(stream_)); }

 private:
  CUstream stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    EXPECT_CUDA_OK(cuEventCreate(&event_, flags));
  }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  ~TestEvent() { EXPECT_CUDA_OK(cuEventDestroy_v2(event_)); }
  operator CUevent() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  CUevent event_ = nullptr;
};

/// A host function that holds its stream up until the test lets it go on.
class Gate {
 public:
  explicit Gate(CUstream stream) {
    EXPECT_CUDA_OK(cuLaunchHostFunc(
        stream, [](void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }, this));
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

/// Zeroed memory of the current device.
template <class T>
class TestMemory {
 public:
  explicit TestMemory(std::size_t count) : count_(count) {
    EXPECT_CUDA_OK(cuMemAlloc_v2(&pointer_, count * sizeof(T)));
    const std::vector<T> zeros(count);
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(pointer_, zeros.data(), count * sizeof(T)));
  }
  explicit TestMemory(const std::vector<T>& values) : TestMemory(values.size()) {
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(pointer_, values.data(), count_ * sizeof(T)));
  }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  ~TestMemory() { EXPECT_CUDA_OK(cuMemFree_v2(pointer_)); }
  [[nodiscard]] CUdeviceptr at(std::size_t index = 0) const { return pointer_ + index * sizeof(T); }
  [[nodiscard]] T* pointer() const { return reinterpret_cast<T*>(pointer_); }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    EXPECT_CUDA_OK(cuMemcpyDtoH_v2(values.data(), pointer_, bytes()));
    return values;
  }

 private:
  std::size_t count_;
  CUdeviceptr pointer_ = 0;
};

}  // namespace emulation_test
