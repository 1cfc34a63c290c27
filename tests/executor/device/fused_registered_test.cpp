// SPDX-License-Identifier: Apache-2.0
// Registered memory of a GPU: the kernels of another process read it where it lies.
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"
#include "sys/cuda/registered_device_memory.hpp"
#include "transports/cuda_ipc_processes.hpp"

namespace coll::testing {
namespace {

using emulation_test::ProcessLink;

constexpr CollectiveSpec kGatherOfTwo{Collective::all_gather, 2, 0};
constexpr std::size_t kRegisteredAt = 512;  // of an allocation

/// A process's memory, which outlives its rank.
struct RegisteringMemory {
  explicit RegisteringMemory(int ordinal) : device(ordinal) {}
  std::byte* begin() { return arena.pointer(kRegisteredAt); }

  const OnDevice device;
  DeviceArena arena{2 * kArena}, other{256};
};

/// A process's rank, whose calls lie in memory that it registers before it connects, or not.
class RegisteringRank {
 public:
  RegisteringRank(const ProcessLink& link, Rank rank, RegisteringMemory& memory, bool registers)
      : rank_(static_cast<std::size_t>(rank)), memory_(memory.begin()) {
    // Beside other memory: rank 1 has one offer, and rank 0 two.
    EXPECT_TRUE(RegisteredDeviceMemory::add(memory.other.pointer(), 64).ok());
    if (registers) {
      EXPECT_TRUE(RegisteredDeviceMemory::add(memory_, 2 * kArena - kRegisteredAt).ok());
    }
    if (rank == 1) {
      EXPECT_TRUE(RegisteredDeviceMemory::remove(memory.other.pointer()).ok());
    }
    end_ = std::make_unique<test::RankOfTwo>(link, rank, rank);
    const auto stream_device = StreamDevice::of(rank);
    EXPECT_TRUE(stream_device.ok()) << stream_device.status().text();
    const auto device = FusedDevice::of(**stream_device, fused_image());
    EXPECT_TRUE(device.ok()) << device.status().text();
    auto made = FusedExecutor::make(**device, 1, shape_of_shares());
    EXPECT_TRUE(made.ok()) << made.status().text();
    executor_ = *std::move(made);
    progress_ = std::make_unique<Progress>();
    auto bound = executor_->bind(
        schedules_of("ring", Collective::all_gather, 2)[rank_], {1, 1, test::kSlot, 0, Loans::none},
        [&](Rank, std::uint32_t) { return &end_->ipc(); }, pool_);
    EXPECT_TRUE(bound.ok()) << bound.status().text();
    program_ = *std::move(bound);
  }
  /// Runs a call `from` bytes behind the registered memory's begin.
  void run_call(std::uint64_t count, std::uint64_t turn, std::size_t from) {
    Buffers buffers(kGatherOfTwo, rank_, count, turn % 2 == 0, turn);
    const auto bytes = buffers.memory().size_bytes();
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(cuda_address(memory_ + from), buffers.memory().data(), bytes));
    EXPECT_CUDA_OK(cuStreamSynchronize(nullptr));  // as in DeviceArena::write
    CallBinding call = buffers.call(100 + turn);
    move(call, buffers.memory().data(), memory_ + from);
    Run run;
    run.bind(*program_, call);
    progress_->begin(run);
    EXPECT_TRUE(test::eventually([&] {
      progress_->poll();
      return run.done() || !run.failure.ok();
    }));
    EXPECT_TRUE(run.done()) << run.failure.text();
    EXPECT_CUDA_OK(cuMemcpyDtoH_v2(buffers.memory().data(), cuda_address(memory_ + from), bytes));
    compare(buffers.take(), kGatherOfTwo, rank_, count, turn);
  }
  /// Fills the slots that its peer writes, and says after a call whether it wrote there.
  void fill_slots() { EXPECT_CUDA_OK(cuMemcpyHtoD_v2(slots(), filling().data(), kSlots)); }
  bool slots_are_as_filled() {
    std::vector<std::byte> now(kSlots);
    EXPECT_CUDA_OK(cuMemcpyDtoH_v2(now.data(), slots(), now.size()));
    return now == filling();
  }

 private:
  static constexpr std::size_t kSlots = test::kSlot * test::kCredits;
  static std::vector<std::byte> filling() {
    return std::vector<std::byte>(kSlots, std::byte{0x5a});
  }
  CUdeviceptr slots() { return end_->ipc().device_port()->receiving().slots; }

  std::size_t rank_;
  std::byte* const memory_;
  std::unique_ptr<test::RankOfTwo> end_;
  ScratchPool pool_;
  std::unique_ptr<FusedExecutor> executor_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<Program> program_;
};

void run_calls(const ProcessLink& link, RegisteringRank& rank, bool peer_registers) {
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    rank.fill_slots();
    link.meet();  // no peer is ahead
    rank.run_call(300 + turn * 500, turn, turn * 1024);
    EXPECT_EQ(rank.slots_are_as_filled(), peer_registers) << "turn " << turn;
  }
}

TEST(FusedRegistered, DISABLED_BeRankOne) {
  const ProcessLink link(emulation_test::kSocketOfOther);
  const bool registers = link.receive<bool>();
  RegisteringMemory memory(1);
  {
    RegisteringRank rank(link, 1, memory, registers);
    run_calls(link, rank, true);
    link.meet();
    link.meet();
    EXPECT_EQ(RegisteredDeviceMemory::begins_at(memory.begin()), registers);
    if (registers) {
      EXPECT_EQ(RegisteredDeviceMemory::remove(memory.begin()).code(), Code::invalid_usage)
          << "the peer has gone, but this end's connection may lend it still";
    }
  }
  link.meet();
}

TEST(FusedRegistered, IsReadWhereItLies) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  for (const bool both : {true, false}) {
    const emulation_test::OtherProcess process("FusedRegistered.DISABLED_BeRankOne");
    process.link().send(both);
    RegisteringMemory both_ranges(0);
    std::byte* const memory = both_ranges.begin();
    auto rank = std::make_unique<RegisteringRank>(process.link(), 0, both_ranges, true);
    run_calls(process.link(), *rank, both);
    process.link().meet();
    EXPECT_EQ(RegisteredDeviceMemory::remove(memory).code(), Code::invalid_usage);
    rank.reset();
    EXPECT_EQ(RegisteredDeviceMemory::remove(memory).code(), Code::invalid_usage)
        << "the peer has it open";
    process.link().meet();
    process.link().meet();
    CudaIpcEnd::drop_closed_offers();
    EXPECT_TRUE(RegisteredDeviceMemory::remove(memory).ok());
    EXPECT_TRUE(RegisteredDeviceMemory::remove(both_ranges.other.pointer()).ok());
    EXPECT_EQ(RegisteredDeviceMemory::remove(memory).code(), Code::invalid_argument);
  }
}

// --- what can be registered

TEST(RegisteredDeviceMemory, IsFoundByAllItsBytesAndByNoOthers) {
  const OnDevice device;
  const DeviceArena first(4096), second(4096);
  ASSERT_TRUE(RegisteredDeviceMemory::add(first.pointer(100), 1000).ok());
  ASSERT_TRUE(RegisteredDeviceMemory::add(second.pointer(), 4096).ok());
  const unsigned one = RegisteredDeviceMemory::entry_of(first.pointer(100), 1000);
  EXPECT_NE(one, 0U);
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(first.pointer(600), 500), one);
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(first.pointer(600), 501), 0U);
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(first.pointer(99), 1), 0U);
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(nullptr, 0), 0U);
  const unsigned other = RegisteredDeviceMemory::entry_of(second.pointer(), 1);
  EXPECT_NE(other, one);
  EXPECT_FALSE(RegisteredDeviceMemory::begins_at(first.pointer(101)));
  EXPECT_TRUE(RegisteredDeviceMemory::remove(first.pointer(100)).ok());
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(first.pointer(100), 1), 0U);
  EXPECT_EQ(RegisteredDeviceMemory::of_device(0).size(), 1U);
  EXPECT_EQ(RegisteredDeviceMemory::of_device(1).size(), 0U);
  EXPECT_TRUE(RegisteredDeviceMemory::remove(second.pointer()).ok());
}

/// A program that frees registered memory may get other memory at the address, which no peer has
/// open.
TEST(RegisteredDeviceMemory, IsNotFoundOnceItHasBeenFreed) {
  const OnDevice device;
  constexpr std::size_t kBytes = 1 << 20;
  CUdeviceptr freed = 0, again = 0;
  EXPECT_CUDA_OK(cuMemAlloc_v2(&freed, kBytes));
  auto* const memory = reinterpret_cast<std::byte*>(freed);
  ASSERT_TRUE(RegisteredDeviceMemory::add(memory, kBytes).ok());
  EXPECT_NE(RegisteredDeviceMemory::entry_of(memory, kBytes), 0U);
  EXPECT_CUDA_OK(cuMemFree_v2(freed));
  EXPECT_EQ(RegisteredDeviceMemory::entry_of(memory, kBytes), 0U);
  EXPECT_CUDA_OK(cuMemAlloc_v2(&again, kBytes));
  if (again == freed) {
    EXPECT_EQ(RegisteredDeviceMemory::entry_of(memory, kBytes), 0U);
  }
  EXPECT_TRUE(RegisteredDeviceMemory::of_device(0).empty());
  EXPECT_TRUE(RegisteredDeviceMemory::remove(memory).ok());
  EXPECT_CUDA_OK(cuMemFree_v2(again));
}

TEST(RegisteredDeviceMemory, RefusesWhatOverlapsOrEndsTooLateOrIsTooMuch) {
  const OnDevice device;
  const DeviceArena arena(8192);
  EXPECT_EQ(RegisteredDeviceMemory::add(arena.pointer(100), 1 << 20).code(),
            Code::invalid_argument);
  std::deque<std::size_t> begins;
  for (unsigned i = 0; i < RegisteredDeviceMemory::kMost; ++i) begins.push_back(i * 64);
  for (const std::size_t begin : begins)
    ASSERT_TRUE(RegisteredDeviceMemory::add(arena.pointer(begin), 64).ok()) << begin;
  EXPECT_EQ(RegisteredDeviceMemory::add(arena.pointer(63), 1).code(), Code::invalid_argument);
  EXPECT_EQ(RegisteredDeviceMemory::add(arena.pointer(4096), 64).code(), Code::out_of_resources);
  ASSERT_TRUE(RegisteredDeviceMemory::remove(arena.pointer(begins[5])).ok());
  EXPECT_TRUE(RegisteredDeviceMemory::add(arena.pointer(begins[5]), 64).ok())
      << "its entry is free again";
  for (const std::size_t begin : begins)
    EXPECT_TRUE(RegisteredDeviceMemory::remove(arena.pointer(begin)).ok());
}

}  // namespace
}  // namespace coll::testing
