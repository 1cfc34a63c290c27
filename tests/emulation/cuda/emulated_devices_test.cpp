// SPDX-License-Identifier: Apache-2.0
// Devices, contexts, names of errors, addresses of functions.
#include <cstdlib>
#include <set>
#include <thread>

#include "emulation/cuda/cuda_on_test.hpp"

namespace emulated_devices_test {
namespace {

using namespace emulation_test;

/// The first test of the program: nothing has initialized the driver yet.
TEST(EmulatedDevices, AreUnknownBeforeInitialization) {
  int count = -1;
  EXPECT_CUDA(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
  CUdeviceptr pointer = 0;
  EXPECT_CUDA(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&pointer, 4));
  int version = 0;
  EXPECT_CUDA_OK(cuDriverGetVersion(&version));
  EXPECT_GE(version, 12000);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

TEST(EmulatedDevices, SayWhatTheyAre) {
  EXPECT_CUDA_OK(cuInit(0));
  int count = 0;
  EXPECT_CUDA_OK(cuDeviceGetCount(&count));
  ASSERT_GT(count, 0);
  std::set<std::string> uuids, buses;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = -1;
    EXPECT_CUDA_OK(cuDeviceGet(&device, ordinal));
    char name[100] = {}, bus[20] = {};
    EXPECT_CUDA_OK(cuDeviceGetName(name, sizeof name, device));
    EXPECT_STRNE(name, "");
    EXPECT_CUDA_OK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    EXPECT_EQ(std::string(bus).size(), 12U) << bus;
    CUuuid uuid{};
    EXPECT_CUDA_OK(cuDeviceGetUuid_v2(&uuid, device));
    uuids.insert(std::string(uuid.bytes, sizeof uuid.bytes));
    buses.insert(bus);
    std::size_t bytes = 0;
    EXPECT_CUDA_OK(cuDeviceTotalMem_v2(&bytes, device));
    EXPECT_GT(bytes, 0U);
    int value = 0;
    EXPECT_CUDA_OK(
        cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    EXPECT_GE(value, 5);
    EXPECT_CUDA_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
    EXPECT_EQ(std::strtol(bus + 5, nullptr, 16), value);
    EXPECT_CUDA_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    EXPECT_EQ(value, 32);
    EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
                cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(9999), device));
  }
  EXPECT_EQ(uuids.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(buses.size(), static_cast<std::size_t>(count));
  CUdevice device = -1;
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
  if (count > 1) {
    int can = -1;
    EXPECT_CUDA_OK(cuDeviceCanAccessPeer(&can, 0, 0));
    EXPECT_EQ(can, 0) << "of itself a device is no peer";
  }
}

TEST(EmulatedDevices, AreAsTheEnvironmentSays) {
  EXPECT_CUDA_OK(cuInit(0));
  if (!is_emulated()) GTEST_SKIP() << "only the emulation reads it";
  int count = 0, major = 0;
  std::size_t bytes = 0;
  EXPECT_CUDA_OK(cuDeviceGetCount(&count));
  EXPECT_EQ(std::to_string(count), std::getenv("EMUCUDA_DEVICES"));
  EXPECT_CUDA_OK(cuDeviceTotalMem_v2(&bytes, 0));
  EXPECT_EQ(std::to_string(bytes), std::getenv("EMUCUDA_MEMORY"));
  EXPECT_CUDA_OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(major, 9);
  char name[100] = {};
  EXPECT_CUDA_OK(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "Emulated GPU");
}

TEST(EmulatedContexts, AreOfAThreadAndOfADevice) {
  EXPECT_CUDA_OK(cuInit(0));
  CUdeviceptr pointer = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&pointer, 4));
  CUcontext context = nullptr, again = nullptr, current = nullptr;
  EXPECT_CUDA_OK(cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_CUDA_OK(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(context, again);
  EXPECT_CUDA_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  EXPECT_CUDA_OK(cuCtxSetCurrent(context));
  EXPECT_CUDA_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context);
  EXPECT_CUDA_OK(cuCtxSetCurrent(nullptr));
  EXPECT_CUDA_OK(cuCtxPushCurrent_v2(context));
  CUdevice device = -1;
  EXPECT_CUDA_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  std::thread([&] {
    EXPECT_CUDA_OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr) << "it is of another thread";
  }).join();
  int least = -1, greatest = 1;
  EXPECT_CUDA_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_LE(greatest, least);
  EXPECT_CUDA_OK(cuCtxPopCurrent_v2(&current));
  EXPECT_EQ(current, context);
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
  EXPECT_CUDA_OK(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_CUDA_OK(cuDevicePrimaryCtxRelease_v2(0));
}

TEST(EmulatedContexts, ReachPeersOnceTheyMay) {
  EXPECT_CUDA_OK(cuInit(0));
  int count = 0;
  EXPECT_CUDA_OK(cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "one device";
  const OnDevice second(1);
  const TestMemory<unsigned> there(1);
  const OnDevice first(0);
  const TestStream stream;
  int can = 0;
  EXPECT_CUDA_OK(cuDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) GTEST_SKIP() << "no peers";
  if (is_emulated()) {
    EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, there.at(), 1, 0));
  }
  EXPECT_CUDA_OK(cuCtxEnablePeerAccess(second.context(), 0));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(second.context(), 0));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, there.at(), 5, 0));
  stream.synchronize();
  EXPECT_EQ(there.read()[0], 5U);
}

TEST(EmulatedErrors, HaveNamesAndTexts) {
  const char* text = nullptr;
  EXPECT_CUDA_OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_CUDA_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuda().cuGetErrorName(static_cast<CUresult>(123456), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST(EmulatedFunctions, AreFoundByTheirPlainNames) {
  EXPECT_CUDA_OK(cuInit(0));
  void* function = nullptr;
  CUdriverProcAddressQueryResult found{};
  EXPECT_CUDA_OK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &found));
  EXPECT_EQ(found, CU_GET_PROC_ADDRESS_SUCCESS);
  if (is_emulated()) {
    EXPECT_EQ(function, reinterpret_cast<void*>(cuda().cuMemAlloc_v2));
  }
  EXPECT_NE(function, nullptr);
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND,
              cuGetProcAddress_v2("cuNoSuchFunction", &function, 12000, 0, &found));
  EXPECT_EQ(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace emulated_devices_test
