// SPDX-License-Identifier: Apache-2.0
// Virtual memory management, also of memory that another process made.
#include "emulation/cuda/cuda_on_test.hpp"
#include "emulation/cuda/other_process.hpp"

namespace emulated_virtual_memory_test {
namespace {

using namespace emulation_test;

CUmemAllocationProp properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

std::size_t granularity() {
  const CUmemAllocationProp wanted = properties();
  std::size_t bytes = 0;
  EXPECT_CUDA_OK(cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return bytes;
}

CUmemGenericAllocationHandle create(std::size_t bytes) {
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CUDA_OK(cuMemCreate(&handle, bytes, &wanted, 0));
  return handle;
}

void let_reach(CUdeviceptr pointer, std::size_t bytes) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_CUDA_OK(cuMemSetAccess(pointer, bytes, &access, 1));
}

/// Two pieces of physical memory that lie side by side.
TEST(EmulatedVirtualMemory, IsPutTogether) {
  const OnDevice device;
  const TestStream stream;
  const std::size_t unit = granularity();
  CUdeviceptr place = 0;
  EXPECT_CUDA_OK(cuMemAddressReserve(&place, 2 * unit, 0, 0, 0));
  for (const CUdeviceptr at : {place, place + unit}) {
    const CUmemGenericAllocationHandle handle = create(unit);
    EXPECT_CUDA_OK(cuMemMap(at, unit, 0, handle, 0));
    EXPECT_CUDA_OK(cuMemRelease(handle));  // the mapping keeps the memory
  }
  if (is_emulated()) {
    EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(place, 1, 1, stream));
  }
  let_reach(place, 2 * unit);
  EXPECT_CUDA_OK(cuMemsetD8Async(place + unit - 5, 7, 10, stream));
  unsigned char read[12] = {};
  EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(read, place + unit - 6, 12, stream));
  stream.synchronize();
  EXPECT_EQ(std::vector<int>(read, read + 12),
            (std::vector<int>{0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0}));

  unsigned type = 0;
  EXPECT_CUDA_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, place + 5));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  unsigned legacy = 1;
  EXPECT_CUDA_OK(
      cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, place));
  EXPECT_EQ(legacy, 0U);
  CUmemGenericAllocationHandle second = 0;
  EXPECT_CUDA_OK(cuMemRetainAllocationHandle(&second, reinterpret_cast<void*>(place + unit)));
  EXPECT_CUDA_OK(cuMemUnmap(place, 2 * unit));

  // The second piece is still there: it is mapped first now.
  EXPECT_CUDA_OK(cuMemMap(place, unit, 0, second, 0));
  EXPECT_CUDA_OK(cuMemRelease(second));
  let_reach(place, unit);
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(read, place, 6));
  EXPECT_EQ(std::vector<int>(read, read + 6), (std::vector<int>{7, 7, 7, 7, 7, 0}));
  EXPECT_CUDA_OK(cuMemUnmap(place, unit));
  EXPECT_CUDA_OK(cuMemAddressFree(place, 2 * unit));
}

TEST(EmulatedVirtualMemory, RefusesWhatDoesNotFit) {
  const OnDevice device;
  const std::size_t unit = granularity();
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr place = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, unit + 1, &wanted, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&place, 1, 0, 0, 0));
  if (is_emulated()) {
    std::size_t bytes = 0;
    EXPECT_CUDA_OK(cuDeviceTotalMem_v2(&bytes, 0));
    EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, bytes + unit, &wanted, 0));
  }
  handle = create(unit);
  EXPECT_CUDA_OK(cuMemAddressReserve(&place, unit, 0, 0, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemMap(place, 2 * unit, 0, handle, 0));
  EXPECT_CUDA_OK(cuMemMap(place, unit, 0, handle, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemMap(place, unit, 0, handle, 0));
  EXPECT_CUDA_OK(cuMemUnmap(place, unit));
  EXPECT_CUDA_OK(cuMemAddressFree(place, unit));
  EXPECT_CUDA_OK(cuMemRelease(handle));
}

TEST(EmulatedVirtualMemory, GoesToAnotherProcess) {
  const OtherProcess other("EmulatedVirtualMemory.DISABLED_Imports");
  const OnDevice device;
  const std::size_t unit = granularity();
  const CUmemGenericAllocationHandle handle = create(unit);
  CUdeviceptr place = 0;
  EXPECT_CUDA_OK(cuMemAddressReserve(&place, unit, 0, 0, 0));
  EXPECT_CUDA_OK(cuMemMap(place, unit, 0, handle, 0));
  let_reach(place, unit);
  int value = 77;
  EXPECT_CUDA_OK(cuMemcpyHtoD_v2(place, &value, sizeof value));
  int descriptor = -1;
  EXPECT_CUDA_OK(cuMemExportToShareableHandle(&descriptor, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  other.link().send(unit, descriptor);
  close(descriptor);
  other.link().meet();
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(&value, place, sizeof value));
  EXPECT_EQ(value, 78);
  EXPECT_CUDA_OK(cuMemUnmap(place, unit));
  EXPECT_CUDA_OK(cuMemRelease(handle));
  EXPECT_CUDA_OK(cuMemAddressFree(place, unit));
}

TEST(EmulatedVirtualMemory, DISABLED_Imports) {
  const ProcessLink link(kSocketOfOther);
  const OnDevice device;
  int descriptor = -1;
  const auto unit = link.receive<std::size_t>(&descriptor);
  CUmemGenericAllocationHandle handle = 0;
  void* const shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  EXPECT_CUDA_OK(
      cuMemImportFromShareableHandle(&handle, shareable, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  CUdeviceptr place = 0;
  EXPECT_CUDA_OK(cuMemAddressReserve(&place, unit, 0, 0, 0));
  EXPECT_CUDA_OK(cuMemMap(place, unit, 0, handle, 0));
  EXPECT_CUDA_OK(cuMemRelease(handle));
  let_reach(place, unit);
  int value = 0;
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(&value, place, sizeof value));
  EXPECT_EQ(value, 77);
  ++value;
  EXPECT_CUDA_OK(cuMemcpyHtoD_v2(place, &value, sizeof value));
  link.meet();
  EXPECT_CUDA_OK(cuMemUnmap(place, unit));
  EXPECT_CUDA_OK(cuMemAddressFree(place, unit));
}

}  // namespace
}  // namespace emulated_virtual_memory_test
