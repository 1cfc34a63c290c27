// SPDX-License-Identifier: Apache-2.0
// Kernels that had no place on the device until nobody waited for them any more.
#include <algorithm>
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"

namespace coll::testing {
namespace {

constexpr unsigned kBlocks = 4;  // of each rank

/// While it is full, kernels that were launched do not begin.
void fill_device(bool full) {
  of_twins<bool>("emulated_device_is_full").store(full, std::memory_order_release);
}

/// A rank with an executor of its own.
struct LostRank {
  FusedRanks ranks;
  std::unique_ptr<Program> program;

  LostRank(Rank rank, const Schedule& schedule, const FusedShape& shape, LoopNetwork& network,
           ScratchPool& pool)
      : ranks(1, shape, processors() / kBlocks) {
    auto bound = ranks.executor(0).bind(
        schedule, {1, 1, 1024, 0, Loans::none},
        [&](Rank peer, std::uint32_t lane) { return &network.end(rank, peer, lane); }, pool);
    EXPECT_TRUE(bound.ok()) << bound.status().text();
    program = *std::move(bound);
  }
  Progress& progress() { return ranks.progress(0); }
};

/// It keeps its blocks, which nobody else may count on. When it begins at last, it neither reads
/// nor writes what was the call's, so no peer gets what is there now.
TEST(FusedLost, AKernelThatBeginsTooLateDoesNothing) {
  if (!is_emulated()) GTEST_SKIP() << "only the twins can be kept from beginning";
  const OnDevice device;
  FusedDevice& fused = fused_device_of_test();
  constexpr std::uint64_t kCount = 100;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  const auto schedules = schedules_of("one_shot", Collective::all_reduce, 2);
  for (const FusedShape& shape : {usual_shape(), shape_of_shares()}) {
    LoopNetwork network(1024, 2);
    ScratchPool pool;
    RankCall call(spec, 0, kCount, true, 1), peers_call(spec, 1, kCount, true, 1);
    auto lost = std::make_unique<LostRank>(0, schedules[0], shape, network, pool);
    LostRank peer(1, schedules[1], shape, network, pool);
    call.bind(*lost->program);
    peers_call.bind(*peer.program);
    fill_device(true);
    lost->progress().begin(call.run);
    peer.progress().begin(peers_call.run);
    lost->progress().abandon(call.run);
    EXPECT_TRUE(call.run.lost) << "its buffers are the device's";
    lost = nullptr;
    const unsigned left = fused.reserve(processors(), 1);
    EXPECT_EQ(left, processors() - 2 * kBlocks);
    fused.give_back(left);

    const std::vector<std::int64_t> mine(kCount, 99);
    call.arena.write(mine.data(), kCount * 8);
    fill_device(false);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < deadline) peer.progress().poll();
    EXPECT_FALSE(peers_call.run.done()) << "of a sum with 99";
    peer.progress().abandon(peers_call.run);
    EXPECT_CUDA_OK(cuCtxSynchronize());
    std::vector<std::int64_t> now(kCount);
    call.arena.read(now.data(), kCount * 8);
    EXPECT_EQ(now, mine);
    fused.give_back(kBlocks);
  }
}

}  // namespace
}  // namespace coll::testing
