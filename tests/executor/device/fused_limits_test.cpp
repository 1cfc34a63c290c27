// SPDX-License-Identifier: Apache-2.0
// How many blocks fused kernels get, which ranks may use them, and what they refuse.
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"

namespace coll::testing {
namespace {

TEST(FusedLimits, TheBlocksOfAProcessFitTheDevice) {
  const OnDevice device;
  FusedDevice& fused = fused_device_of_test();
  const unsigned all = processors();
  ASSERT_GE(all, 64U);
  EXPECT_EQ(fused.reserve(32, 1), 32U);
  EXPECT_EQ(fused.reserve(32, 8), all / 8);
  EXPECT_EQ(fused.reserve(500, 1), all - 32 - all / 8);
  EXPECT_EQ(fused.reserve(32, 1), 0U);
  {
    const auto made = FusedExecutor::make(fused, 1, usual_shape());
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().failure()->code, Code::unsupported);
  }
  fused.give_back(all - 3);
  EXPECT_EQ(fused.reserve(32, 1), 32U);
  fused.give_back(32 + 3);
  // An executor gives back what it had.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(FusedExecutor::make(fused, 1, usual_shape()).ok());
  EXPECT_EQ(fused.reserve(all, 1), all);
  fused.give_back(all);
}

TEST(FusedLimits, AKernelHasNoMoreBlocksThanItsExecutor) {
  const OnDevice device;
  const auto schedules = schedules_of("ring", Collective::all_reduce, 3);
  {
    FusedRanks ranks(3, shape_of_shares(), processors() / 5);
    FusedPrograms programs(ranks, {schedules}, {2, 2, 1 << 16});
    EXPECT_EQ(programs.program(0).shares, KernelRing::kShares);
    EXPECT_EQ(programs.program(0).blocks_of_lane, 2U) << "of 5 blocks for 2 lanes";
  }
  FusedRanks ranks(3, shape_of_shares(), processors());
  LoopNetwork network(256, 2);
  ScratchPool pool;
  const auto bound = ranks.executor(0).bind(
      schedules[0], {2, 1, 256, 0, Loans::none},
      [&](Rank peer, std::uint32_t lane) { return &network.end(0, peer, lane); }, pool);
  ASSERT_FALSE(bound.ok()) << "2 lanes, 1 block";
  EXPECT_EQ(bound.status().failure()->code, Code::unsupported);
}

TEST(FusedLimits, AConnectionThatServesStreamsOnlyIsRefused) {
  const OnDevice device;
  FusedRanks ranks(2, usual_shape(), 8);
  LoopNetwork network(256, 2);
  network.end(0, 1, 0).port()->serve_no_kernels();
  ScratchPool pool;
  const auto bound = ranks.executor(0).bind(
      schedules_of("recursive_doubling", Collective::all_reduce, 2)[0], {1, 1, 256, 0, Loans::none},
      [&](Rank peer, std::uint32_t lane) { return &network.end(0, peer, lane); }, pool);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.status().code(), Code::unsupported);
  EXPECT_NE(bound.status().text().find("rank 1 serves no kernels"), std::string::npos)
      << bound.status().text();
}

/// Ranks whose kernels have different numbers of blocks understand each other.
TEST(FusedLimits, RanksNeedNotHaveAsManyBlocks) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 3, 0};
  for (const char* const name : {"ring", "double_binary_tree", "recursive_halving_doubling"}) {
    const auto schedules = schedules_of(name, Collective::all_reduce, 3);
    std::deque<FusedRanks> ranks;
    for (const unsigned sharing : {processors() / 16, processors() / 7, processors() / 4})
      ranks.emplace_back(1, shape_of_shares(), sharing);
    LoopNetwork network(2048, 2);
    ScratchPool pool;
    std::deque<RankCall> calls;
    std::vector<std::unique_ptr<Program>> programs;
    for (std::size_t r = 0; r < 3; ++r) {
      auto bound = ranks[r].executor(0).bind(
          schedules[r], {1, longest_message(schedules), 2048, 0, Loans::none},
          [&](Rank peer, std::uint32_t lane) {
            return &network.end(static_cast<Rank>(r), peer, lane);
          },
          pool);
      ASSERT_TRUE(bound.ok()) << bound.status().text();
      programs.push_back(*std::move(bound));
      calls.emplace_back(spec, r, 3000, true, 1).bind(*programs[r]);
      ranks[r].progress(0).begin(calls[r].run);
    }
    EXPECT_NE(static_cast<FusedProgram&>(*programs[0]).blocks_of_lane,
              static_cast<FusedProgram&>(*programs[2]).blocks_of_lane);
    for (std::size_t r = 0; r < 3; ++r) {
      ASSERT_TRUE(ranks[r].poll_until_done(0, calls[r].run));
      calls[r].expect_result(spec, r, 3000, 1);
    }
  }
}

/// However many calls are begun while a peer is late, the driver's queue has room. The others begin
/// when there is room again, or never.
TEST(FusedLimits, NoMoreKernelsThanAStreamTakes) {
  const OnDevice device;
  constexpr std::size_t kCalls = 80;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  FusedRanks ranks(2, usual_shape());
  FusedPrograms programs(ranks, {schedules_of("recursive_doubling", Collective::all_reduce, 2)},
                         {});
  std::deque<RankCall> calls;
  const auto begin = [&](std::size_t rank, std::uint64_t number) {
    calls.emplace_back(spec, rank, 10, true, number).bind(programs.program(rank));
    ranks.progress(rank).begin(calls.back().run);
  };
  for (std::size_t i = 0; i < kCalls; ++i) begin(0, i);
  const auto launched = [&] {
    return static_cast<LoopPort&>(*programs.program(0).ports[0]).sent.size();
  };
  EXPECT_EQ(launched(), 64U);
  for (int i = 0; i < 10; ++i) ranks.progress(0).poll();
  EXPECT_EQ(launched(), 64U);
  ranks.progress(0).abandon(calls.back().run);
  for (std::size_t i = 0; i + 1 < kCalls; ++i) begin(1, i);
  for (std::size_t i = 0; i + 1 < kCalls; ++i) {
    for (const std::size_t r : {std::size_t{0}, std::size_t{1}}) {
      RankCall& call = calls[r * kCalls + i];
      ASSERT_TRUE(ranks.poll_until_done(r, call.run));
      call.expect_result(spec, r, 10, i);
    }
  }
  EXPECT_EQ(launched(), kCalls - 1);
}

TEST(FusedLimits, WhatItRefuses) {
  const OnDevice device;
  FusedRanks ranks(2, usual_shape());
  LoopNetwork network(256, 2);
  ScratchPool pool;
  const auto connection = [&](Rank peer, std::uint32_t lane) {
    return &network.end(0, peer, lane);
  };
  const ProgramShape shape{1, 2, 256, 0, Loans::none};
  const CollectiveSpec unequal{Collective::all_gather, 2, 0, true};
  const auto bound = ranks.executor(0).bind(build_all(*find_algorithm("ring"), unequal)[0], shape,
                                            connection, pool);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.status().failure()->code, Code::unsupported);

  // A function of the program's.
  FusedPrograms programs(ranks, {schedules_of("ring", Collective::all_reduce, 2)}, {});
  RankCall call({Collective::all_reduce, 2, 0}, 0, 10, true, 1);
  call.bind(programs.program(0));
  call.run.call.own.combine = [](void*, const void*, const void*, void*, std::size_t) {};
  ranks.progress(0).begin(call.run);
  ASSERT_FALSE(call.run.failure.ok());
  EXPECT_EQ(call.run.failure.failure()->code, Code::unsupported);
  ranks.progress(0).abandon(call.run);
}

}  // namespace
}  // namespace coll::testing
