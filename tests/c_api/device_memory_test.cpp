// SPDX-License-Identifier: Apache-2.0
// Buffers that lie in a GPU's memory are refused with a reason, before anything is read. The
// emulated driver says which do.
#include <collectives/collectives.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "emulated_driver/emulated_cuda.hpp"

namespace collectives::testing {
namespace {

void load_driver() {
  ASSERT_NE(dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
}

void claim(const void* begin, std::size_t bytes, int device, bool managed = false) {
  void* const driver = dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(driver, nullptr);
  const auto told =
      reinterpret_cast<decltype(&emulated_cuda_claim)>(dlsym(driver, "emulated_cuda_claim"));
  ASSERT_NE(told, nullptr);
  told(begin, bytes, device, managed ? 1 : 0);
}

void expect_refused(coll_status_t status, const std::string& words) {
  EXPECT_EQ(status, COLL_UNSUPPORTED);
  EXPECT_NE(std::string(coll_last_error()).find(words), std::string::npos) << coll_last_error();
}

coll_status_t sum(const std::vector<float>& send, std::vector<float>& recv, coll_comm_t comm) {
  return coll_all_reduce(send.data(), recv.data(), recv.size(), COLL_FLOAT32, COLL_SUM, comm,
                         nullptr);
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

/// A test is a process of its own, so here the driver is not loaded yet.
TEST(DeviceMemory, IsLookedForOnceTheProgramHasLoadedTheDriver) {
  const std::vector<float> before(16, 1), after(16, 1);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    std::vector<float> recv(16);
    EXPECT_EQ(sum(before, recv, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(recv[15], 2);
    if (rank == 0) {
      load_driver();
      claim(after.data(), sizeof(float) * 16, 5);
    }
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    expect_refused(sum(after, recv, comm), "all_reduce: send is memory of CUDA device 5");
    // Every rank has refused, so the communicator goes on.
    EXPECT_EQ(sum(before, recv, comm), COLL_SUCCESS) << coll_last_error();
  });
}

TEST(DeviceMemory, IsRefusedWhereverACallNamesIt) {
  load_driver();
  const std::vector<float> gpu(64, 1), host(64, 1);
  claim(gpu.data(), sizeof(float) * 64, 3);
  run_ranks(2, [&](coll_comm_t comm, int) {
    std::vector<float> recv(64, 7);
    expect_refused(coll_all_gather(gpu.data() + 63, recv.data(), 1, COLL_FLOAT32, comm, nullptr),
                   "all_gather: send is memory of CUDA device 3, which processors cannot read");
    expect_refused(coll_all_reduce(host.data(), const_cast<float*>(gpu.data()), 64, COLL_FLOAT32,
                                   COLL_SUM, comm, nullptr),
                   "all_reduce: recv is memory");

    coll_call_t call = sum_call(host.data(), recv.data(), 64);
    call.factor = gpu.data();
    for (const int late : {0, 1}) {
      call.factor_late = late;
      expect_refused(coll_run(&call, comm), "factor is memory of CUDA device 3");
    }
    const coll_part_t parts[] = {{host.data(), recv.data(), 8}, {gpu.data(), recv.data() + 8, 8}};
    call = sum_call(nullptr, nullptr, 0);
    call.parts = parts;
    call.part_count = 2;
    expect_refused(coll_run(&call, comm), "part 1: all_reduce: send is memory");
    EXPECT_EQ(recv, std::vector<float>(64, 7)) << "something was written";

    // Nothing of it is touched: 0 elements may lie anywhere.
    EXPECT_EQ(coll_all_reduce(gpu.data(), recv.data(), 0, COLL_FLOAT32, COLL_SUM, comm, nullptr),
              COLL_SUCCESS)
        << coll_last_error();
  });
  EXPECT_EQ(coll_mem_register(gpu.data(), 64), COLL_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(coll_last_error(), "memory of CUDA device 3"), nullptr)
      << coll_last_error();
}

TEST(DeviceMemory, ManagedMemoryIsTheHostsToo) {
  load_driver();
  const std::vector<float> managed(1000, 2);
  claim(managed.data(), sizeof(float) * 1000, 0, true);
  run_ranks(3, [&](coll_comm_t comm, int) {
    std::vector<float> recv(1000);
    EXPECT_EQ(sum(managed, recv, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(recv, std::vector<float>(1000, 6));
  });
}

}  // namespace
}  // namespace collectives::testing
