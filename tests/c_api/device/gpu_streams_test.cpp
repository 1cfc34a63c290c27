// SPDX-License-Identifier: Apache-2.0
// Calls that GPUs move, and what streams of CUDA wait for: nothing that the library does while a
// stream waits for a call may wait for that stream.
#include <array>

#include "c_api/device/ranks_on_gpus.hpp"

namespace collectives::testing {
namespace gpu_streams_test {

using emulation_test::Gate;

/// A stream that waits for the default stream, and which that waits for.
class FollowingStream {
 public:
  FollowingStream() {
    EXPECT_CUDA_OK(cuStreamCreate(&cuda_, 0));
    EXPECT_COLL(coll_stream_from_cuda(&ours_, cuda_));
  }
  FollowingStream(const FollowingStream&) = delete;
  FollowingStream& operator=(const FollowingStream&) = delete;
  ~FollowingStream() {
    EXPECT_COLL(coll_stream_destroy(ours_));
    EXPECT_CUDA_OK(cuStreamDestroy_v2(cuda_));
  }
  operator coll_stream_t() const { return ours_; }  // NOLINT(google-explicit-constructor)
  operator CUstream() const { return cuda_; }       // NOLINT(google-explicit-constructor)

 private:
  CUstream cuda_ = nullptr;
  coll_stream_t ours_ = nullptr;
};

void sum(const TestMemory<float>& data, coll_comm_t comm, coll_stream_t stream) {
  EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM, comm,
                              stream));
}

coll_mem_stats_t memory_of(coll_comm_t comm) {
  coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
  EXPECT_COLL(coll_comm_mem_stats(comm, &stats));
  return stats;
}

/// The default stream waits for a stream that waits for a call; a call without a stream waits for
/// the default stream. Meanwhile somebody has to move the first call.
TEST(GpuStreams, ACallBehindTheDefaultStreamLetsEarlierOnesMove) {
  for (const bool by_gpus : {true, false}) {
    on_gpus(
        2,
        [by_gpus](coll_comm_t comm, int rank, const BothStreams&) {
          EXPECT_EQ(moved_by_gpus(comm, kCount), by_gpus);
          const Values mine = counting(kCount, rank);
          const TestMemory<float> first(mine), second(kCount);
          EXPECT_CUDA_OK(
              cuMemsetD8Async(second.at(), 0, 4, nullptr));  // the default stream is used
          const FollowingStream stream;
          for (int turn = 0; turn < 3; ++turn) {
            put(mine, first, stream);
            sum(first, comm, stream);
            EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(second.at(), first.at(), first.bytes(), nullptr));
            sum(second, comm, nullptr);
            Values twice = sum_of(kCount, 2);
            EXPECT_EQ(first.read(), twice);
            for (float& value : twice) value *= 2;
            ASSERT_EQ(second.read(), twice) << "turn " << turn;
          }
        },
        config_with(), [by_gpus](int rank) { return by_gpus || rank == 0; });
  }
}

/// All that a call needs is there before its stream waits for it.
TEST(GpuStreams, FirstCallsArePreparedBeforeTheyAreOnTheStream) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(counting(kCount, rank));
    const coll_mem_stats_t before = memory_of(comm);
    Gate gate(stream);
    sum(data, comm, stream);
    const coll_mem_stats_t after = memory_of(comm);
    EXPECT_GT(after.connections, before.connections);
    EXPECT_GT(after.programs, before.programs);
    Values host = counting(kCount, rank);
    EXPECT_COLL(
        coll_all_reduce(host.data(), host.data(), kCount, COLL_FLOAT32, COLL_SUM, comm, stream));
    gate.open();
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), sum_of(kCount, 2));
    EXPECT_EQ(host, sum_of(kCount, 2));
  });
}

/// One thread has both ranks, and puts their first calls on streams one after the other.
TEST(GpuStreams, OneThreadMayIssueTheCallsOfSeveralRanks) {
  constexpr int kSize = 2;
  std::array<coll_comm_t, kSize> comms{};
  int devices = 1;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  look_at_machine();
  coll_unique_id_t id;
  EXPECT_COLL(coll_get_unique_id(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      const OnDevice device(rank % devices);
      const std::string name = std::to_string(rank % devices);
      coll_config_t config = config_with(30);
      config.device = name.c_str();
      comms[static_cast<std::size_t>(rank)] = join(id, kSize, rank, config);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const OnDevice device(0);
  const BothStreams first, second;
  const TestMemory<float> one(counting(kCount, 0)), other(counting(kCount, 1));
  sum(one, comms[0], first);
  sum(other, comms[1], second);
  EXPECT_COLL(coll_stream_synchronize(first));
  EXPECT_COLL(coll_stream_synchronize(second));
  EXPECT_EQ(one.read(), sum_of(kCount, kSize));
  EXPECT_EQ(other.read(), sum_of(kCount, kSize));
  EXPECT_COLL(coll_group_start());  // together they need not wait for one another
  sum(one, comms[0], first);
  sum(other, comms[1], second);
  EXPECT_COLL(coll_group_end());
  EXPECT_COLL(coll_stream_synchronize(first));
  EXPECT_COLL(coll_stream_synchronize(second));
  threads.clear();
  for (coll_comm_t comm : comms)
    threads.emplace_back([comm] { EXPECT_COLL(coll_comm_destroy(comm)); });
  for (std::thread& thread : threads) thread.join();
}

/// A call that differs on the ranks fails on both, also if its bytes have moved and a later call of
/// the same lengths is under way.
TEST(GpuStreams, DifferentCallsAreAnErrorWithLaterOnesInFlight) {
#if defined(COLL_THREAD_SANITIZER)
  GTEST_SKIP() << "a GPU that is released goes on with slots that its peer is writing; that is "
                  "worthless by then";
#endif
  for (int round = 0; round < 20; ++round) {
    on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
      const TestMemory<float> first(Values(kCount, 1.F)), second(Values(kCount, 1.F));
      EXPECT_COLL(coll_all_reduce(first.pointer(), first.pointer(), kCount, COLL_FLOAT32,
                                  rank == 0 ? COLL_MAX : COLL_SUM, comm, stream));
      const BothStreams later;
      coll_status_t other = coll_all_reduce(second.pointer(), second.pointer(), kCount,
                                            COLL_FLOAT32, COLL_SUM, comm, later);
      stream.synchronize();
      EXPECT_EQ(coll_stream_synchronize(stream), COLL_MISMATCH);
      later.synchronize();
      if (other == COLL_SUCCESS) other = coll_stream_synchronize(later);  // else refused
      EXPECT_EQ(other, COLL_MISMATCH);
    });
    if (::testing::Test::HasFailure()) return;
  }
}

/// Both send first, more than any buffer between them holds.
TEST(GpuStreams, LongExchangesBothWays) {
  constexpr std::size_t kLong = 8 << 20;
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> out(counting(kLong, rank)), in(kLong);
    EXPECT_COLL(coll_group_start());
    EXPECT_COLL(coll_send(out.pointer(), kLong, COLL_FLOAT32, 1 - rank, comm, stream));
    EXPECT_COLL(coll_recv(in.pointer(), kLong, COLL_FLOAT32, 1 - rank, comm, stream));
    EXPECT_COLL(coll_group_end());
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(in.read(), counting(kLong, 1 - rank));
  });
}

/// Buffers of the host, and no memory left on the GPU to put them in.
TEST(GpuStreams, WhoHasNoMemoryIsNamed) {
  if (!is_emulated()) GTEST_SKIP() << "fills the memory of the device, which others may need";
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(counting(kCount, rank));
    sum(data, comm, stream);
    EXPECT_COLL(coll_stream_synchronize(stream));
    Values host = counting(kCount, rank);
    float* const buffer = rank == 1 ? host.data() : data.pointer();
    std::vector<CUdeviceptr> filling;
    for (std::size_t bytes = 1 << 28; rank == 1 && bytes >= 1 << 16;) {
      CUdeviceptr piece = 0;
      if (cuda().cuMemAlloc_v2(&piece, bytes) == CUDA_SUCCESS) {
        filling.push_back(piece);
      } else {
        bytes /= 2;
      }
    }
    EXPECT_COLL(coll_barrier(comm, nullptr));
    coll_status_t status =
        coll_all_reduce(buffer, buffer, kCount, COLL_FLOAT32, COLL_SUM, comm, stream);
    if (status == COLL_SUCCESS) status = coll_stream_synchronize(stream);
    EXPECT_EQ(status, COLL_OUT_OF_RESOURCES);
    const std::string said = coll_last_error();
    EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
    EXPECT_NE(said.find("memory of CUDA device"), std::string::npos) << said;
    for (CUdeviceptr piece : filling) EXPECT_CUDA_OK(cuMemFree_v2(piece));
  });
}

}  // namespace gpu_streams_test
}  // namespace collectives::testing
