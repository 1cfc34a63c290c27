// SPDX-License-Identifier: Apache-2.0
// Where the driver that the program has loaded cannot copy, buffers that lie in a GPU's memory are
// refused with a reason, before anything is read.
#include <collectives/collectives.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <optional>
#include <string>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "emulated_driver/emulated_cuda.hpp"

namespace collectives::testing {
namespace {

void load_driver() {
  ASSERT_NE(dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
}

template <class Function>
Function* in_driver(const char* name) {
  void* const driver = dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(driver == nullptr ? nullptr : dlsym(driver, name));
}

/// Host memory that the driver takes for a GPU's. Like that it has its pages for itself.
class DeviceArray {
 public:
  DeviceArray(std::size_t count, float value, int device, bool managed = false)
      : data_(static_cast<float*>(std::aligned_alloc(kPage, kPage))) {
    std::fill_n(data_, count, value);
    const auto tell = in_driver<decltype(emulated_cuda_claim)>("emulated_cuda_claim");
    if (tell != nullptr) tell(data_, count * sizeof(float), device, managed ? 1 : 0);
    EXPECT_NE(tell, nullptr);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    const auto tell = in_driver<decltype(emulated_cuda_unclaim)>("emulated_cuda_unclaim");
    if (tell != nullptr) tell(data_);
    std::free(data_);
  }
  [[nodiscard]] float* data() const { return data_; }

 private:
  static constexpr std::size_t kPage = 65536;
  float* data_;
};

void expect_refused(coll_status_t status, const std::string& words) {
  EXPECT_EQ(status, COLL_UNSUPPORTED);
  EXPECT_NE(std::string(coll_last_error()).find(words), std::string::npos) << coll_last_error();
}

coll_status_t sum(const float* send, std::vector<float>& recv, coll_comm_t comm) {
  return coll_all_reduce(send, recv.data(), recv.size(), COLL_FLOAT32, COLL_SUM, comm, nullptr);
}

coll_call_t sum_call(const float* send, float* recv, std::size_t count) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  call.type = COLL_FLOAT32;
  call.op = COLL_SUM;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

/// The first test of the process: nothing has loaded the driver yet.
TEST(DeviceMemory, IsLookedForOnceTheProgramHasLoadedTheDriver) {
  if (dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_NOLOAD) != nullptr) GTEST_SKIP() << "it is loaded";
  const std::vector<float> host(16, 1);
  std::optional<DeviceArray> gpu;
  std::latch made(2);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    std::vector<float> recv(16);
    EXPECT_EQ(sum(host.data(), recv, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(recv[15], 2);
    if (rank == 0) {
      load_driver();
      gpu.emplace(16, 1.0F, 5);
    }
    made.arrive_and_wait();
    expect_refused(sum(gpu->data(), recv, comm), "all_reduce: send is memory of CUDA device 5");
    // Every rank has refused, so the communicator goes on.
    EXPECT_EQ(sum(host.data(), recv, comm), COLL_SUCCESS) << coll_last_error();
  });
}

TEST(DeviceMemory, IsRefusedWhereverACallNamesIt) {
  load_driver();
  const std::vector<float> host(64, 1);
  DeviceArray gpu(64, 1, 3);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    std::vector<float> recv(64, 7);
    expect_refused(
        coll_all_gather(gpu.data() + 63, recv.data(), 1, COLL_FLOAT32, comm, nullptr),
        "all_gather: send is memory of CUDA device 3, and the CUDA driver that is loaded cannot "
        "copy it: it has no cuGetErrorName");
    expect_refused(
        coll_all_reduce(host.data(), gpu.data(), 64, COLL_FLOAT32, COLL_SUM, comm, nullptr),
        "all_reduce: recv is memory");
    const size_t counts[] = {1, 2};
    expect_refused(
        coll_all_gatherv(gpu.data(), recv.data(), counts, nullptr, COLL_FLOAT32, comm, nullptr),
        "send is memory");
    expect_refused(coll_send_tagged(gpu.data(), 1, COLL_FLOAT32, 1 - rank, 5, comm, nullptr),
                   "send is memory");

    coll_call_t call = sum_call(gpu.data(), recv.data(), 64);
    coll_work_t work = nullptr;
    expect_refused(coll_start(&call, comm, nullptr, &work), "send is memory");
    EXPECT_EQ(coll_group_start(), COLL_SUCCESS);
    expect_refused(coll_run(&call, comm), "send is memory");
    EXPECT_EQ(coll_group_cancel(), COLL_SUCCESS);

    call = sum_call(host.data(), recv.data(), 64);
    call.factor = gpu.data();
    for (const int late : {0, 1}) {
      call.factor_late = late;
      expect_refused(coll_run(&call, comm), "factor is memory of CUDA device 3");
    }
    coll_part_t parts[] = {{host.data(), recv.data(), 8}, {gpu.data(), recv.data() + 8, 8}};
    call = sum_call(nullptr, nullptr, 0);
    call.parts = parts;
    call.part_count = 2;
    expect_refused(coll_run(&call, comm), "part 1: all_reduce: send is memory");
    EXPECT_EQ(recv, std::vector<float>(64, 7)) << "something was written";

    // Nothing of it is touched: 0 elements may lie anywhere.
    parts[1].count = 0;
    EXPECT_EQ(coll_run(&call, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_all_reduce(gpu.data(), recv.data(), 0, COLL_FLOAT32, COLL_SUM, comm, nullptr),
              COLL_SUCCESS)
        << coll_last_error();
  });
  // This driver is too old for that.
  EXPECT_EQ(coll_mem_register(gpu.data(), 64), COLL_UNSUPPORTED);
  EXPECT_NE(std::strstr(coll_last_error(), "memory of CUDA device 3: the driver has no "), nullptr)
      << coll_last_error();
}

TEST(DeviceMemory, ManagedMemoryIsTheHostsToo) {
  load_driver();
  DeviceArray managed(1000, 2, 0, true);
  run_ranks(3, [&](coll_comm_t comm, int) {
    std::vector<float> recv(1000);
    EXPECT_EQ(sum(managed.data(), recv, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(recv, std::vector<float>(1000, 6));
  });
}

}  // namespace
}  // namespace collectives::testing
