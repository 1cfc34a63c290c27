// SPDX-License-Identifier: Apache-2.0
// Measuring a GPU's copies: it ends, leaves nothing behind, and disturbs no capture. What it
// measures means something on a real device only.
#include "sys/cuda/device_copy_costs.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "emulation/cuda/cuda_on_test.hpp"

namespace coll {
namespace {

using emulation_test::cuda;
using emulation_test::is_emulated;
using emulation_test::name_of;
using emulation_test::OnDevice;
using emulation_test::TestStream;
using namespace emucuda;  // the driver's names

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

void expect_plausible(const DeviceCopyCosts& costs) {
  for (const double rate :
       {costs.within_gbytes_per_s, costs.to_host_gbytes_per_s, costs.from_host_gbytes_per_s}) {
    EXPECT_TRUE(rate > 0.01 && rate < 1e5) << rate;
  }
  EXPECT_TRUE(costs.start_us > 0 && costs.start_us < 1e5) << costs.start_us;
}

/// Beside a capture, too.
TEST(DeviceCopyCosts, AreMeasuredOnceAndLeaveNothing) {
  const OnDevice device;
  const TestStream stream;
  const std::size_t before = free_bytes();
  EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  std::vector<DeviceCopyCosts> seen(4);
  {
    std::vector<std::jthread> threads;
    for (DeviceCopyCosts& each : seen)
      threads.emplace_back([&each] { each = device_copy_costs(0); });
  }
  CUgraph graph = nullptr;
  EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph));
  EXPECT_CUDA_OK(cuGraphDestroy(graph));
  if (is_emulated()) {  // others use a real device
    EXPECT_EQ(free_bytes(), before);
  }
  const DeviceCopyCosts known = device_copy_costs(0);
  expect_plausible(known);
  for (const DeviceCopyCosts& each : seen) EXPECT_TRUE(each == known || each == DeviceCopyCosts{});
  EXPECT_EQ(device_copy_costs(0), known) << "no clock says the same twice";
}

/// Device 1 is nobody else's in this file.
TEST(DeviceCopyCosts, AreNotKnownWhereMemoryWasShortOnce) {
  if (!is_emulated()) GTEST_SKIP() << "others use a real device's memory";
  int devices = 0;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs a device that was not measured";
  const OnDevice device(1);
  CUdeviceptr most = 0;
  EXPECT_CUDA_OK(cuMemAlloc_v2(&most, free_bytes() - (1 << 20)));
  EXPECT_EQ(device_copy_costs(1), DeviceCopyCosts{});
  EXPECT_CUDA_OK(cuMemFree_v2(most));
  EXPECT_EQ(device_copy_costs(1), DeviceCopyCosts{}) << "it is not tried again";
}

TEST(DeviceCopyCosts, AreNotKnownWhereThereIsNoDevice) {
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_EQ(device_copy_costs(1000), DeviceCopyCosts{});
}

}  // namespace
}  // namespace coll
