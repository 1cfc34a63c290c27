// SPDX-License-Identifier: Apache-2.0
// Fused kernels over CUDA IPC, both ends in one process.
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"
#include "transports/cuda_ipc_pair.hpp"

namespace coll::testing {
namespace {

/// Two ranks with a connection between them.
struct IpcRanks {
  explicit IpcRanks(const FusedShape& shape) : pair(test::shm()), ranks(2, shape) {
    settled = pair.settle();
    EXPECT_TRUE(settled);
    const auto schedules = schedules_of("recursive_doubling", Collective::all_reduce, 2);
    for (std::size_t r = 0; r < 2 && settled; ++r) {
      auto bound = ranks.executor(r).bind(
          schedules[r], {1, 1, test::kSlot, 0, Loans::none},
          [&](Rank, std::uint32_t) { return pair.ends[r].get(); }, pool);
      EXPECT_TRUE(bound.ok()) << bound.status().text();
      programs.push_back(*std::move(bound));
    }
  }
  test::IpcPair pair;
  FusedRanks ranks;
  ScratchPool pool;
  std::vector<std::unique_ptr<Program>> programs;
  bool settled = false;
};

TEST(FusedIpc, RanksReduceOverIpc) {
  const OnDevice device;
  for (const FusedShape& shape : {usual_shape(), shape_of_slots(), shape_of_shares()}) {
    IpcRanks two(shape);
    ASSERT_TRUE(two.settled);
    for (std::uint64_t turn = 0; turn < 6; ++turn) {
      const std::uint64_t count = turn * 700;
      std::deque<RankCall> calls;
      for (std::size_t r = 0; r < 2; ++r) {
        calls.emplace_back(kSumOfTwo, r, count, turn % 2 == 0, turn).bind(*two.programs[r]);
        calls[r].run.call.digest = 100 + turn;
        two.ranks.progress(r).begin(calls[r].run);
      }
      // Each needs the other's host for the digests.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!calls[0].run.done() || !calls[1].run.done()) {
        for (std::size_t r = 0; r < 2; ++r) {
          two.ranks.progress(r).poll();
          ASSERT_TRUE(calls[r].run.failure.ok()) << calls[r].run.failure.text();
        }
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no end in sight";
      }
      for (std::size_t r = 0; r < 2; ++r) calls[r].expect_result(kSumOfTwo, r, count, turn);
    }
  }
}

/// Of one GPU all memory may be lent, of two what is registered.
void expect_loans(int other_device) {
  const OnDevice device;
  test::IpcPair pair(test::shm(), other_device);
  ASSERT_TRUE(pair.settle());
  ASSERT_TRUE(pair.ends[0]->reaches()) << pair.ends[0]->refusal();
  std::vector<std::uint64_t> reaches(KernelRing::kReaches);
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(reaches.data(),
                                 pair.ends[0]->device_port()->sending().kernels.reaches,
                                 reaches.size() * sizeof(std::uint64_t)));
  std::vector<std::uint64_t> expected(KernelRing::kReaches, 1);
  if (other_device != 0) expected[0] = 0;
  EXPECT_EQ(reaches, expected) << "device " << other_device;
}
TEST(FusedIpc, EndsOfOneGpuMayLendAll) {
  expect_loans(0);
}
TEST(FusedIpc, EndsOfTwoGpusMayLendWhatIsRegistered) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  expect_loans(1);
}

/// Ranks that are in different calls find out, and their kernels end.
TEST(FusedIpc, DifferentCallsAreFound) {
  const OnDevice device;
  IpcRanks two(shape_of_slots());
  ASSERT_TRUE(two.settled);
  std::deque<RankCall> calls;
  for (std::size_t r = 0; r < 2; ++r) {
    // More elements on the one side: its peer sends too few.
    calls.emplace_back(kSumOfTwo, r, 100 + 4000 * r, true, 1).bind(*two.programs[r]);
    calls[r].run.call.digest = r;
    two.ranks.progress(r).begin(calls[r].run);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (failed_connection(calls[0].run) == nullptr || failed_connection(calls[1].run) == nullptr) {
    for (std::size_t r = 0; r < 2; ++r) two.ranks.progress(r).poll();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nobody found out";
  }
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(failed_connection(calls[r].run)->status().failure()->code, Code::mismatch);
    two.ranks.progress(r).abandon(calls[r].run);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace coll::testing
