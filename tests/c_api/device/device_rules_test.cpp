// SPDX-License-Identifier: Apache-2.0
// What calls on buffers in a GPU's memory keep to besides the right bytes: what is pinned and
// copied, contexts, messages, addresses that come back, copies that fail.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <barrier>
#include <cstring>
#include <string>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "c_api/device/gpu_memory.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace device_rules_test {

TEST(DeviceRules, PinMemoryOnceForCallsThatRepeat) {
  const EmulatedCudaCounts before = DRIVER(emulated_cuda_counts)();
  EXPECT_EQ(before.pinned, 0U) << "communicators that are gone have unpinned theirs";
  constexpr std::size_t kCount = 5000;
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory send(kCount * sizeof(float), rank), recv(kCount * sizeof(float), rank);
    send.fill(1);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(coll_all_reduce(send.at<float>(), recv.at<float>(), kCount, COLL_FLOAT32, COLL_SUM,
                                comm, nullptr),
                COLL_SUCCESS);
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    const EmulatedCudaCounts now = DRIVER(emulated_cuda_counts)();
    EXPECT_EQ(now.registrations - before.registrations, 2U) << "one for the buffers of each rank";
    EXPECT_EQ(now.copied_bytes - before.copied_bytes, 2 * 20 * 2 * kCount * sizeof(float))
        << "inputs off the GPUs, outputs to them, and nothing else";
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
    EXPECT_EQ(coll_comm_mem_stats(comm, &stats), COLL_SUCCESS) << coll_last_error();
    EXPECT_GE(stats.call_bytes, 2 * kCount * sizeof(float));
  });
  EXPECT_EQ(DRIVER(emulated_cuda_counts)().pinned, 0U);
}

TEST(DeviceRules, ATaggedMessageThatIsShorterLeavesTheRestAlone) {
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory memory(64 * sizeof(float), rank);
    if (rank == 0) {
      memory.fill(5);
      EXPECT_EQ(coll_send_tagged(memory.at<float>(), 10, COLL_FLOAT32, 1, 7, comm, nullptr),
                COLL_SUCCESS)
          << coll_last_error();
      return;
    }
    coll_message_t message = COLL_MESSAGE_INIT;
    EXPECT_EQ(coll_recv_tagged(memory.at<float>(), 64, COLL_FLOAT32, COLL_ANY_SOURCE, 7, &message,
                               comm, nullptr),
              COLL_SUCCESS)
        << coll_last_error();
    EXPECT_EQ(message.count, 10U);
    Memory sent(64 * sizeof(float), -1);
    sent.fill(5);
    EXPECT_EQ(std::memcmp(memory.content(), sent.content(), 10 * sizeof(float)), 0);
    for (std::size_t i = 10 * sizeof(float); i < 64 * sizeof(float); ++i)
      ASSERT_EQ(memory.content()[i], kPoison) << i;
  });
}

TEST(DeviceRules, ATaggedMessageToOneselfIsCopied) {
  for (const bool on_gpu : {true, false}) {
    run_ranks(1, [&](coll_comm_t comm, int) {
      Memory send(400, on_gpu ? 0 : -1), recv(400, 0);
      send.fill(7);
      coll_stream_t stream = nullptr;
      EXPECT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
      EXPECT_EQ(coll_send_tagged(send.at<float>(), 50, COLL_FLOAT32, 0, 3, comm, stream),
                COLL_SUCCESS)
          << coll_last_error();
      EXPECT_EQ(coll_recv_tagged(recv.at<float>(), 100, COLL_FLOAT32, 0, 3, nullptr, comm, nullptr),
                COLL_SUCCESS)
          << coll_last_error();
      EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS);
      EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
      EXPECT_EQ(std::memcmp(recv.content(), send.content(), 200), 0);
      EXPECT_EQ(recv.content()[200], kPoison);
    });
  }
}

/// Neighbours on a GPU may be two allocations: one copy reaches one of them only.
TEST(DeviceRules, PartsThatAreNeighboursAreCopiedEachForItself) {
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory send(800, rank), recv(800, rank);
    send.fill(static_cast<unsigned>(rank));
    const std::size_t before = DRIVER(emulated_cuda_counts)().copies;
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    const coll_part_t parts[] = {{send.at<float>(), recv.at<float>(), 100},
                                 {send.at<float>(100), recv.at<float>(100), 100}};
    const coll_call_t call = sum_of_parts(parts);
    EXPECT_EQ(coll_run(&call, comm), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    EXPECT_EQ(DRIVER(emulated_cuda_counts)().copies - before, 8U) << "2 ranks, 2 parts, both ways";
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
  });
}

TEST(DeviceRules, AnAddressThatWasTheHostsMayBecomeAGpus) {
  constexpr std::size_t kBytes = 1 << 20;
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    void* const place =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    std::vector<float> recv(100);
    Memory first(400, rank);  // from now on the library knows the driver
    EXPECT_EQ(
        coll_all_reduce(first.at<float>(), recv.data(), 100, COLL_FLOAT32, COLL_SUM, comm, nullptr),
        COLL_SUCCESS);
    const auto call = [&] {
      return coll_all_reduce(place, recv.data(), 100, COLL_FLOAT32, COLL_SUM, comm, nullptr);
    };
    EXPECT_EQ(call(), COLL_SUCCESS);
    EXPECT_EQ(call(), COLL_SUCCESS);
    DRIVER(emulated_cuda_alloc_at)(place, kBytes, rank);
    const float one = 1;
    for (int i = 0; i < 100; ++i)
      std::memcpy(DRIVER(emulated_cuda_content)(place) + i * 4, &one, sizeof one);
    EXPECT_EQ(call(), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(recv, std::vector<float>(100, 2));
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS);
    DRIVER(emulated_cuda_free)(place);
  });
}

TEST(DeviceRules, AnInputThatCannotBeCopiedFailsTheCallOnAllRanks) {
  // A barrier of the communicator would fail on a rank that leaves it last.
  std::barrier both(2);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory send(400, rank == 0 ? 0 : -1), recv(400, -1);
    const auto call = [&] {
      return coll_all_reduce(send.at<float>(), recv.at<float>(), 100, COLL_FLOAT32, COLL_SUM, comm,
                             nullptr);
    };
    EXPECT_EQ(call(), COLL_SUCCESS) << coll_last_error();
    both.arrive_and_wait();
    if (rank == 0) DRIVER(emulated_cuda_fail_after)(0);
    EXPECT_EQ(call(), COLL_SYSTEM) << coll_last_error();
    const std::string error = coll_last_error();
    EXPECT_NE(error.find("CUDA device 0: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
    EXPECT_NE(coll_barrier(comm, nullptr), COLL_SUCCESS) << "the communicator has failed";
    if (rank == 0) DRIVER(emulated_cuda_fail_after)(-1);
  });
}

TEST(DeviceRules, AnOutputThatCannotBeCopiedFailsTheCallOnItsRank) {
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory send(400, -1), recv(400, rank == 0 ? 0 : -1);
    if (rank == 0) DRIVER(emulated_cuda_fail_after)(0);
    const coll_status_t status = coll_all_reduce(send.at<float>(), recv.at<float>(), 100,
                                                 COLL_FLOAT32, COLL_SUM, comm, nullptr);
    EXPECT_EQ(status, rank == 0 ? COLL_SYSTEM : COLL_SUCCESS) << coll_last_error();
    if (rank == 0) DRIVER(emulated_cuda_fail_after)(-1);
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS) << coll_last_error();
  });
}

}  // namespace device_rules_test
}  // namespace collectives::testing
