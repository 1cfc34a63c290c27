// SPDX-License-Identifier: Apache-2.0
// Fused kernels of two processes, each with a GPU.
#include <unistd.h>

#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"
#include "transports/cuda_ipc_processes.hpp"

namespace coll::testing {
namespace {

using emulation_test::ProcessLink;

/// A process's rank: its end, its executor, and its program.
class RankOfProcess {
 public:
  RankOfProcess(const ProcessLink& link, Rank rank, const FusedShape& shape)
      : device_(rank), end_(link, rank, rank) {
    const auto stream_device = StreamDevice::of(rank);
    EXPECT_TRUE(stream_device.ok()) << stream_device.status().text();
    const auto device = FusedDevice::of(**stream_device, fused_image());
    EXPECT_TRUE(device.ok()) << device.status().text();
    auto made = FusedExecutor::make(**device, 1, shape);
    EXPECT_TRUE(made.ok()) << made.status().text();
    executor_ = *std::move(made);
    progress_ = std::make_unique<Progress>();
    const auto schedules = schedules_of("recursive_doubling", Collective::all_reduce, 2);
    auto bound = executor_->bind(
        schedules[static_cast<std::size_t>(rank)], {1, 1, test::kSlot, 0, Loans::none},
        [&](Rank, std::uint32_t) { return &end_.ipc(); }, pool_);
    EXPECT_TRUE(bound.ok()) << bound.status().text();
    program_ = *std::move(bound);
    rank_ = static_cast<std::size_t>(rank);
  }
  RankCall& begin(std::uint64_t count, std::uint64_t turn) {
    RankCall& call = calls_.emplace_back(kSumOfTwo, rank_, count, turn % 2 == 0, turn);
    call.bind(*program_);
    call.run.call.digest = 100 + turn;
    progress_->begin(call.run);
    return call;
  }
  void finish(RankCall& call, std::uint64_t count, std::uint64_t turn) {
    EXPECT_TRUE(test::eventually([&] {
      progress_->poll();
      return call.run.done() || !call.run.failure.ok();
    }));
    EXPECT_TRUE(call.run.done()) << call.run.failure.text();
    call.expect_result(kSumOfTwo, rank_, count, turn);
  }
  void run_calls() {
    for (std::uint64_t turn = 0; turn < 5; ++turn) {
      RankCall& call = begin(turn * 900, turn);
      finish(call, turn * 900, turn);
    }
  }
  Progress& progress() { return *progress_; }

 private:
  std::size_t rank_ = 0;
  const OnDevice device_;
  test::RankOfTwo end_;
  ScratchPool pool_;
  std::unique_ptr<FusedExecutor> executor_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<Program> program_;
  std::deque<RankCall> calls_;
};

const FusedShape& shape_of_processes(int number) {
  static const FusedShape shapes[] = {shape_of_lines(), shape_of_shares()};
  return shapes[number];
}

TEST(FusedProcesses, DISABLED_BeRankOne) {
  const ProcessLink link(emulation_test::kSocketOfOther);
  RankOfProcess rank(link, 1, shape_of_processes(link.receive<int>()));
  rank.run_calls();
  link.meet();
}

TEST(FusedProcesses, ReduceOverIpc) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  for (const int shape : {0, 1}) {
    const emulation_test::OtherProcess process("FusedProcesses.DISABLED_BeRankOne");
    process.link().send(shape);
    RankOfProcess rank(process.link(), 0, shape_of_processes(shape));
    rank.run_calls();
    process.link().meet();
  }
}

TEST(FusedProcesses, DISABLED_BeGone) {
  const ProcessLink link(emulation_test::kSocketOfOther);
  RankOfProcess rank(link, 1, shape_of_processes(link.receive<int>()));
  link.meet();
  _exit(0);  // as by a signal: nothing is undone
}

/// A kernel that waits for a peer whose process is gone ends when the host says so.
TEST(FusedProcesses, APeerThatIsGone) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  for (const int shape : {0, 1}) {
    const emulation_test::OtherProcess process("FusedProcesses.DISABLED_BeGone");
    process.link().send(shape);
    RankOfProcess rank(process.link(), 0, shape_of_processes(shape));
    RankCall& call = rank.begin(2000, 1);
    process.link().meet();
    for (int i = 0; i < 1000; ++i) rank.progress().poll();
    EXPECT_FALSE(call.run.done());
    rank.progress().abandon(call.run);
    EXPECT_FALSE(call.run.lost) << "the kernel still runs";
  }
}

}  // namespace
}  // namespace coll::testing
