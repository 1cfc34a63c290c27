// SPDX-License-Identifier: Apache-2.0
// Memory of devices and of the host, copies, and what the driver says of pointers.
#include <algorithm>
#include <set>

#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_memory_test {
namespace {

using namespace emulation_test;

template <class T>
T attribute(CUpointer_attribute which, CUdeviceptr pointer) {
  T value{};
  EXPECT_CUDA_OK(cuPointerGetAttribute(&value, which, pointer));
  return value;
}

TEST(EmulatedMemory, CopiesThereAndBack) {
  const OnDevice device;
  const TestStream stream;
  std::vector<int> in(1000), out(1000);
  for (int i = 0; i < 1000; ++i) in[static_cast<std::size_t>(i)] = i;
  const TestMemory<int> first(1000), second(1000);
  EXPECT_CUDA_OK(cuMemcpyHtoDAsync_v2(first.at(), in.data(), first.bytes(), stream));
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(second.at(500), first.at(), 2000, stream));
  EXPECT_CUDA_OK(cuMemcpyAsync(second.at(), first.at(500), 2000, stream));
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(out.data(), second.at(), second.bytes(), stream));
  stream.synchronize();
  std::rotate(in.begin(), in.begin() + 500, in.end());
  EXPECT_EQ(out, in);
  EXPECT_CUDA_OK(cuMemcpy(first.at(), second.at(), second.bytes()));
  EXPECT_EQ(first.read(), in);
}

TEST(EmulatedMemory, IsSetByBytesAndByWords) {
  const OnDevice device;
  const TestStream stream;
  const TestMemory<unsigned> memory(4);
  EXPECT_CUDA_OK(cuMemsetD32Async(memory.at(1), 0x12345678, 2, stream));
  EXPECT_CUDA_OK(cuMemsetD8Async(memory.at(3), 0xab, 3, stream));
  stream.synchronize();
  EXPECT_EQ(memory.read(), (std::vector<unsigned>{0, 0x12345678, 0x12345678, 0xababab}));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(memory.at() + 2, 1, 1, stream));
}

TEST(EmulatedMemory, OfNoDeviceIsRefusedAsItsEnd) {
  const OnDevice device;
  const TestStream stream;
  int here = 0;
  const TestMemory<int> memory(1000);
  const auto host = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(&here));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync_v2(memory.at(), host, 4, stream));
  if (is_emulated()) {  // a real device's blocks may be longer than what was asked for
    EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(&here, memory.at(999), 8, stream));
  }
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory.at(1)));
}

TEST(EmulatedMemory, EndsAtTheDevicesSize) {
  const OnDevice device;
  std::size_t free_before = 0, total = 0, free_now = 0;
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&free_before, &total));
  EXPECT_LE(free_before, total);
  CUdeviceptr pointer = 0, more = 0;
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&pointer, total + 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&pointer, 0));
  if (!is_emulated()) GTEST_SKIP() << "other processes use a real device";
  EXPECT_CUDA_OK(cuMemAlloc_v2(&pointer, free_before));
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 1));
  EXPECT_CUDA_OK(cuMemFree_v2(pointer));
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&free_now, &total));
  EXPECT_EQ(free_now, free_before);
}

TEST(EmulatedPointers, OfDevicesAreKnown) {
  const OnDevice device;
  const TestMemory<int> memory(1000);
  const CUdeviceptr inside = memory.at(10);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside), 0);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, inside), device.context());
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside), inside);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside), 0U);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside), 1U);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside), memory.at());
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), memory.bytes());
  void* host = nullptr;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_CUDA_OK(cuMemGetAddressRange_v2(&base, &bytes, inside));
  EXPECT_EQ(base, memory.at());
  EXPECT_EQ(bytes, memory.bytes());
}

TEST(EmulatedPointers, OfNobodyAreZeros) {
  const OnDevice device;
  int here = 0;
  const auto host = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(&here));
  unsigned type = 7, managed = 7;
  unsigned long long buffer = 7;
  const CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                            CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                            CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* values[] = {&type, &managed, &buffer};
  EXPECT_CUDA_OK(cuPointerGetAttributes(3, attributes, values, host));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(managed, 0U);
  EXPECT_EQ(buffer, 0U);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
}

TEST(EmulatedPointers, HaveANumberThatNeverComesAgain) {
  const OnDevice device;
  std::set<unsigned long long> numbers;
  for (int i = 0; i < 20; ++i) {
    const TestMemory<int> memory(16);
    const auto number = attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory.at(3));
    EXPECT_TRUE(numbers.insert(number).second) << number;
  }
}

TEST(EmulatedPointers, OfManagedMemoryAreTheHostsToo) {
  const OnDevice device;
  CUdeviceptr pointer = 0;
  EXPECT_CUDA_OK(cuMemAllocManaged(&pointer, 4, CU_MEM_ATTACH_GLOBAL));
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer), 1U);
  *reinterpret_cast<int*>(pointer) = 5;
  int read = 0;
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(&read, pointer, 4));
  EXPECT_EQ(read, 5);
  EXPECT_CUDA_OK(cuMemFree_v2(pointer));
}

TEST(EmulatedHostMemory, IsReachedByDevices) {
  const OnDevice device;
  const TestStream stream;
  void* host = nullptr;
  EXPECT_CUDA_OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  auto* const words = static_cast<unsigned*>(host);
  CUdeviceptr pointer = 0;
  EXPECT_CUDA_OK(cuMemHostGetDevicePointer_v2(&pointer, words + 4, 0));
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer), words + 4);
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, pointer, 9, 0));
  stream.synchronize();
  EXPECT_EQ(words[4], 9U);
  EXPECT_CUDA_OK(cuMemFreeHost(host));
}

TEST(EmulatedHostMemory, IsRegisteredOnce) {
  const OnDevice device;
  const TestStream stream;
  std::vector<unsigned> page(4096);
  CUdeviceptr pointer = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(&pointer, page.data(), 0));
  EXPECT_CUDA_OK(cuMemHostRegister_v2(page.data(), 16384, 0));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              cuMemHostRegister_v2(page.data(), 16384, 0));
  EXPECT_CUDA_OK(cuMemHostGetDevicePointer_v2(&pointer, page.data(), 0));
  EXPECT_CUDA_OK(cuMemsetD32Async(pointer, 3, 4096, stream));
  stream.synchronize();
  EXPECT_EQ(page, std::vector<unsigned>(4096, 3));
  EXPECT_CUDA_OK(cuMemHostUnregister(page.data()));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(page.data()));
}

}  // namespace
}  // namespace emulated_memory_test
