// SPDX-License-Identifier: Apache-2.0
// GPUs for which there are no kernels: their copy engines move calls that do not reduce, and the
// host moves the others. Ranks are threads.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "c_api/device/ranks_on_gpus.hpp"

namespace collectives::testing {
namespace gpu_copies_test {

class GpuCopies : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const OnDevice device;
    if (!is_emulated()) GTEST_SKIP() << "its kernels can be loaded";
    const char* const kernels = std::getenv("EMUCUDA_KERNELS");
    ASSERT_TRUE(kernels == nullptr || *kernels == '\0') << kernels;
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, GpuCopies, ::testing::Values(2, 4));

/// A block of `kCount` elements.
Values block(const Values& of, int index) {
  const auto begin = of.begin() + static_cast<std::ptrdiff_t>(index) * std::ptrdiff_t{kCount};
  return {begin, begin + std::ptrdiff_t{kCount}};
}

TEST_P(GpuCopies, MoveWhatDoesNotReduce) {
  const int size = GetParam();
  on_gpus(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
    for (const coll_operation_t operation :
         {COLL_ALL_GATHER, COLL_BROADCAST, COLL_ALL_TO_ALL, COLL_GATHER, COLL_SCATTER}) {
      const std::string by = explained(comm, kCount, operation);
      EXPECT_NE(by.find("moved by: streams of the ranks' GPUs"), std::string::npos) << by;
    }
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    const std::string by = explained(comm, kCount, COLL_SEND, next);
    EXPECT_NE(by.find("moved by: copies of the ranks' GPUs"), std::string::npos) << by;

    const std::size_t all = kCount * static_cast<std::size_t>(size);
    const TestMemory<float> in(counting(all, rank)), out(all);
    const auto result = [&] {
      EXPECT_COLL(coll_stream_synchronize(stream));
      const Values got = out.read();
      // Of the next call: what this one left does not count.
      EXPECT_CUDA_OK(cuMemsetD8Async(out.at(), 0xee, out.bytes(), stream));
      return got;
    };
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_COLL(coll_all_gather(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, comm, stream));
      Values got = result();
      for (int r = 0; r < size; ++r) ASSERT_EQ(block(got, r), counting(kCount, r));
      EXPECT_COLL(
          coll_broadcast(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 1, comm, stream));
      ASSERT_EQ(block(result(), 0), counting(kCount, 1));
      EXPECT_COLL(coll_all_to_all(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, comm, stream));
      got = result();
      for (int r = 0; r < size; ++r) ASSERT_EQ(block(got, r), block(counting(all, r), rank));
      EXPECT_COLL(coll_gather(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 0, comm, stream));
      got = result();
      for (int r = 0; r < size && rank == 0; ++r) ASSERT_EQ(block(got, r), counting(kCount, r));
      EXPECT_COLL(coll_scatter(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 1, comm, stream));
      ASSERT_EQ(block(result(), 0), block(counting(all, 1), rank));
      EXPECT_COLL(coll_group_start());
      EXPECT_COLL(coll_send(in.pointer(), kCount, COLL_FLOAT32, next, comm, stream));
      EXPECT_COLL(coll_recv(out.pointer(), kCount, COLL_FLOAT32, last, comm, stream));
      EXPECT_COLL(coll_group_end());
      ASSERT_EQ(block(result(), 0), counting(kCount, last));
    }
    coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
    EXPECT_COLL(coll_comm_mem_stats(comm, &stats));
    EXPECT_EQ(stats.call_bytes, 0U) << "nothing was copied aside";
    EXPECT_EQ(in.read(), counting(all, rank)) << "an input changed";
  });
}

/// Beside calls that the GPUs move, and also in a communicator that is made from that one.
TEST_P(GpuCopies, LeaveToTheHostWhatReduces) {
  const int size = GetParam();
  on_gpus(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
    coll_comm_t part = nullptr;
    EXPECT_COLL(coll_comm_split(comm, 0, rank, nullptr, &part));
    const std::size_t all = kCount * static_cast<std::size_t>(size);
    const TestMemory<float> in(counting(all, rank)), out(all);
    for (coll_comm_t each : {comm, part}) {
      for (const coll_operation_t operation : {COLL_ALL_REDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER}) {
        const std::string by = explained(each, kCount, operation);
        EXPECT_EQ(by.find("moved by:"), std::string::npos) << by;
      }
      const std::string by = explained(each, kCount, COLL_ALL_GATHER);
      EXPECT_NE(by.find("moved by: streams of the ranks' GPUs"), std::string::npos) << by;
      EXPECT_COLL(coll_all_gather(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, each, stream));
      EXPECT_COLL(
          coll_all_reduce(out.pointer(), out.pointer(), all, COLL_FLOAT32, COLL_SUM, each, stream));
      EXPECT_COLL(coll_stream_synchronize(stream));
      const Values sums = out.read();
      for (int r = 0; r < size; ++r) {
        Values times = counting(kCount, r);
        for (float& value : times) value *= static_cast<float>(size);
        ASSERT_EQ(block(sums, r), times);
      }
      EXPECT_COLL(coll_reduce_scatter(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                      each, stream));
      EXPECT_COLL(coll_stream_synchronize(stream));
      ASSERT_EQ(block(out.read(), 0), block(sum_of(all, size), rank));
    }
    EXPECT_COLL(coll_comm_destroy(part));
  });
}

}  // namespace gpu_copies_test
}  // namespace collectives::testing
