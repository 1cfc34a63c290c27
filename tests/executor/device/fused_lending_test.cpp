// SPDX-License-Identifier: Apache-2.0
// Messages that fused kernels lend: who reads them where, until when, and what a withdrawal does.
#include <algorithm>
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"

namespace coll::testing {
namespace {

constexpr CollectiveSpec kBroadcast{Collective::broadcast, 2, 0};
constexpr std::uint64_t kLentCount = 200;
constexpr std::size_t kLentBytes = kLentCount * sizeof(std::int64_t);

/// Two ranks with a connection whose ends may lend, or not. Rank 0 broadcasts to rank 1.
struct LendingRanks {
  explicit LendingRanks(bool lends, const FusedShape& shape = shape_of_slots())
      : ranks(2, shape),
        programs(ranks, {schedules_of("binomial", Collective::broadcast, 2)},
                 {.copies = 1, .credits = 2, .slice_bytes = 4096, .lends = lends}) {}
  RankCall& begin(std::size_t rank, std::uint64_t count = kLentCount) {
    RankCall& call = calls.emplace_back(kBroadcast, rank, count, false, 1);
    call.bind(programs.program(rank));
    ranks.progress(rank).begin(call.run);
    return call;
  }
  /// Polls the rank for a while, in which its run does not end.
  void expect_no_end(std::size_t rank, const RankCall& call) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < deadline && !call.run.done()) {
      ranks.progress(rank).poll();
      std::this_thread::yield();
    }
    EXPECT_FALSE(call.run.done());
    EXPECT_TRUE(call.run.failure.ok()) << call.run.failure.text();
  }
  void finish(std::size_t rank, RankCall& call) {
    if (ranks.poll_until_done(rank, call.run)) call.expect_result(kBroadcast, rank, kLentCount, 1);
  }

  FusedRanks ranks;
  FusedPrograms programs;
  std::deque<RankCall> calls;
};

std::vector<std::byte> read_memory(CUdeviceptr from) {
  std::vector<std::byte> bytes(kLentBytes);
  EXPECT_CUDA_OK(cuMemcpyDtoH_v2(bytes.data(), from, kLentBytes));
  return bytes;
}

TEST(FusedLending, AMessageThatIsLentLeavesItsSlotAsItWas) {
  const OnDevice device;
  for (const bool lends : {false, true}) {
    for (const FusedShape& shape : {shape_of_slots(), shape_of_shares()}) {
      LendingRanks two(lends, shape);
      const CUdeviceptr slot = two.programs.network().slots(0, 1);
      const std::vector<std::byte> before(kLentBytes, std::byte{0x5a});
      EXPECT_CUDA_OK(cuMemcpyHtoD_v2(slot, before.data(), kLentBytes));
      RankCall &root = two.begin(0), &other = two.begin(1);
      two.finish(0, root);
      two.finish(1, other);
      EXPECT_EQ(read_memory(slot) == before, lends);
    }
  }
}

TEST(FusedLending, ACallEndsWhenItsLoansHaveBeenRead) {
  const OnDevice device;
  for (const FusedShape& shape : {shape_of_slots(), shape_of_shares()}) {
    LendingRanks two(true, shape);
    RankCall& root = two.begin(0);
    two.expect_no_end(0, root);
    RankCall& other = two.begin(1);
    two.finish(1, other);
    two.finish(0, root);
  }
}

TEST(FusedLending, AMessageInASlotIsNotWaitedFor) {
  const OnDevice device;
  LendingRanks two(false);
  RankCall& root = two.begin(0);
  two.finish(0, root);
  two.finish(1, two.begin(1));
}

/// The root's call has failed, and its buffer holds something else by now. It had sent all, or
/// waited for slots.
TEST(FusedLending, NobodyTakesWhatWasWithdrawn) {
  const OnDevice device;
  for (const std::uint64_t count : {kLentCount, 10 * kLentCount}) {
    for (const FusedShape& shape : {shape_of_slots(), shape_of_shares()}) {
      LendingRanks two(true, shape);
      RankCall& root = two.begin(0, count);
      two.expect_no_end(0, root);
      two.ranks.progress(0).abandon(root.run);
      EXPECT_FALSE(root.run.lost);
      const std::vector<std::int64_t> others(count, 99);
      root.arena.write(others.data(), count * sizeof(std::int64_t));
      RankCall& other = two.begin(1, count);
      two.expect_no_end(1, other);
      two.ranks.progress(1).abandon(other.run);
      std::vector<std::int64_t> taken(count);
      other.arena.read(taken.data(), count * sizeof(std::int64_t));
      EXPECT_EQ(std::ranges::count(taken, 99), 0);
    }
  }
}

/// What was sent through slots before stays valid when a later call fails.
TEST(FusedLending, AWithdrawalLeavesEarlierCallsAlone) {
  const OnDevice device;
  LendingRanks two(false);
  RankCall& first = two.begin(0);
  two.finish(0, first);
  // From now on the root lends.
  std::vector<std::uint64_t> reaches(KernelRing::kReaches, 1);
  const auto& ring = two.programs.network().end(0, 1, 0).port()->sending();
  EXPECT_CUDA_OK(cuMemcpyHtoD_v2(ring.kernels.reaches, reaches.data(), reaches.size() * 8));
  RankCall& second = two.begin(0);
  two.expect_no_end(0, second);
  two.ranks.progress(0).abandon(second.run);
  two.finish(1, two.begin(1));
}

// --- a message that is withdrawn while it is read

/// Of a message that the test withdraws and writes over.
struct Withdrawal {
  std::uint32_t* ready = nullptr;
  std::int64_t* message = nullptr;
  int barriers = 0;  ///< of the kernel that reads it, before
};
Withdrawal g_withdrawal;

void withdraw_at_barrier() {
  if (g_withdrawal.barriers-- != 0) return;
  std::atomic_ref(*g_withdrawal.ready).store(12345);
  std::fill_n(g_withdrawal.message, kLentCount, 99);
}
void set_at_barrier(void (*function)()) {
  of_twins<void (*)()>("emulated_at_barrier").store(function);
}

/// Whenever it is withdrawn, a call that ends well has taken the message.
TEST(FusedLending, WhatIsWithdrawnWhileItIsReadIsNoResult) {
  if (!is_emulated()) GTEST_SKIP() << "only the twins stop at barriers for a test";
  const OnDevice device;
  int done = 0, failed = 0, told = 0;
  for (int barriers = 0; barriers < 12; ++barriers) {
    LendingRanks two(true);
    // The test is the sender.
    DeviceArena lent(kLentBytes);
    RankCall root(kBroadcast, 0, kLentCount, false, 1);
    lent.write(root.buffers.memory().data(), kLentBytes);
    const CUdeviceptr ready = two.programs.network().ready(0, 1), place = lent.at();
    const std::uint32_t number = 1;
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(ready + KernelRing::kLentAt, &place, sizeof place));
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(ready, &number, sizeof number));
    g_withdrawal = {reinterpret_cast<std::uint32_t*>(ready), reinterpret_cast<std::int64_t*>(place),
                    barriers};
    set_at_barrier(withdraw_at_barrier);
    RankCall& call = two.begin(1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!call.run.done() && call.run.failure.ok() && std::chrono::steady_clock::now() < deadline)
      two.ranks.progress(1).poll();
    if (call.run.done()) {
      ++done;
      call.expect_result(kBroadcast, 1, kLentCount, 1);
    } else {
      ++failed;
      if (!call.run.failure.ok()) {
        ++told;
        EXPECT_NE(call.run.failure.text().find("withdrew"), std::string::npos)
            << call.run.failure.text();
      }
      two.ranks.progress(1).abandon(call.run);
    }
    EXPECT_CUDA_OK(cuCtxSynchronize());
    set_at_barrier(nullptr);
    ASSERT_FALSE(::testing::Test::HasFailure()) << barriers << " barriers before";
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(failed, 1);
  EXPECT_GT(told, 0) << "of those that had begun to read";
}

}  // namespace
}  // namespace coll::testing
