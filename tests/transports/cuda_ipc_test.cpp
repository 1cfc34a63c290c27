// SPDX-License-Identifier: Apache-2.0
// Ends of CUDA IPC in two processes, and in two threads; the way around it; memory that is kept.
#include <cstdlib>
#include <thread>

#include "cuda_ipc_pair.hpp"
#include "cuda_ipc_processes.hpp"
#include "failing_allocations.hpp"

namespace coll::test {
namespace {

using emulation_test::kSocketOfOther;
using emulation_test::OtherProcess;

// --- without peer access

TEST(CudaIpcFallback, IsTakenByBothEndsWithoutPeerAccess) {
  NEEDS_TWO_GPUS();
  if (!is_emulated()) GTEST_SKIP() << "a real driver does not forget that GPUs reach each other";
  setenv("EMUCUDA_PEERS", "0", 1);
  { const OtherProcess other("CudaIpcFallback.DISABLED_InOneProcess"); }
  { const OtherProcess other("CudaIpcFallback.DISABLED_InTwoProcesses"); }
  unsetenv("EMUCUDA_PEERS");
}

TEST(CudaIpcFallback, DISABLED_InOneProcess) {
  const OnDevice device;
  std::size_t before = 0, after = 0, all = 0;
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&before, &all));
  IpcPair pair(shm(), 1);
  ASSERT_TRUE(pair.settle());
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&after, &all));
  EXPECT_EQ(before, after) << "GPUs that do not reach each other give no memory";
  EXPECT_NE(pair.ends[1]->refusal().find("cannot reach"), std::string::npos)
      << pair.ends[1]->refusal();
  fall_back(pair, {0, 1});
  IpcPair same(shm(), 0);
  ASSERT_TRUE(same.settle());
  EXPECT_TRUE(same.ends[0]->reaches()) << "a GPU always reaches itself";
}

// --- two processes

/// Calls in both directions, all begun at once.
void exchange(DeviceEnd& end, Rank rank, std::uint64_t seed) {
  for (std::uint64_t call = 0; call < 20; ++call) {
    const auto count = [&](std::uint64_t from) {
      return static_cast<int>((seed + call * 7 + from) % 8);
    };
    const CallMessages there(seed + 2 * call, count(0), kSlot);
    const CallMessages back(seed + 2 * call + 1, count(1), kSlot);
    end.send(rank == 0 ? there : back);
    end.receive(rank == 0 ? back : there);
  }
  EXPECT_TRUE(eventually([&] {
    end.step();
    return end.over() || !end.connection().status().ok();
  }));
  EXPECT_TRUE(end.connection().status().ok()) << end.connection().status().text();
  eventually([&] { return end.over() || end.give_up(); });
  end.check();
}

struct Wanted {
  int device = 0;
  std::uint64_t seed = 0;
  bool reaches = true;
};

void be_rank_0(const Wanted& other, int device = 0) {
  const OtherProcess process("CudaIpcProcesses.DISABLED_BeRankOne");
  process.link().send(other);
  RankOfTwo rank(process.link(), 0, device);
  EXPECT_EQ(rank.ipc().reaches(), other.reaches) << rank.ipc().refusal();
  DeviceEnd end = rank.take();
  exchange(end, 0, other.seed);
  process.link().meet();
}

TEST(CudaIpcProcesses, DISABLED_BeRankOne) {
  const ProcessLink link(kSocketOfOther);
  const auto wanted = link.receive<Wanted>();
  RankOfTwo rank(link, 1, wanted.device);
  EXPECT_EQ(rank.ipc().reaches(), wanted.reaches) << rank.ipc().refusal();
  DeviceEnd end = rank.take();
  exchange(end, 1, wanted.seed);
  link.meet();
}

TEST(CudaIpcProcesses, MoveMessagesOfOneGpu) {
  be_rank_0({0, test_seed(), true});
}
TEST(CudaIpcProcesses, MoveMessagesBetweenTwoGpus) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  be_rank_0({1, test_seed(), true});
}

TEST(CudaIpcProcesses, DISABLED_CloseLater) {
  const ProcessLink link(kSocketOfOther);
  {
    const RankOfTwo rank(link, 1, 0);
    link.meet();  // the other one has destroyed its end
    link.meet();
  }
  link.meet();
}

/// To free it would be undefined.
TEST(CudaIpcProcesses, KeepMemoryThatThePeerHasOpen) {
  const OtherProcess process("CudaIpcProcesses.DISABLED_CloseLater");
  const OnDevice device;
  CUdeviceptr ring = 0, base = 0;
  std::size_t bytes = 0;
  {
    RankOfTwo rank(process.link(), 0, 0);
    ASSERT_TRUE(rank.ipc().reaches()) << rank.ipc().refusal();
    ring = rank.ipc().device_port()->receiving().slots;
  }
  process.link().meet();
  EXPECT_CUDA_OK(cuMemGetAddressRange_v2(&base, &bytes, ring));
  process.link().meet();
  process.link().meet();  // it has closed it
  {
    IpcPair other(shm());
    ASSERT_TRUE(other.settle());
    EXPECT_CUDA_OK(cuMemGetAddressRange_v2(&base, &bytes, ring));
  }
  EXPECT_CUDA(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &bytes, ring));
}

TEST(CudaIpcFallback, DISABLED_InTwoProcesses) {
  be_rank_0({1, test_seed(), false});
}

/// This process can reach the other's GPU, and is told that the other one cannot reach this one's.
TEST(CudaIpcFallback, IsTakenByBothEndsWhereOneDoesNotSeeTheOther) {
  NEEDS_TWO_GPUS();
  if (!is_emulated()) GTEST_SKIP() << "the emulation hides a GPU from the other process";
  context_of_device(1);  // this process sees both
  const char* const before = std::getenv("EMUCUDA_DEVICES");
  const std::string kept = before != nullptr ? before : "1";
  setenv("EMUCUDA_DEVICES", "1", 1);
  be_rank_0({0, test_seed(), false}, 1);
  setenv("EMUCUDA_DEVICES", kept.c_str(), 1);
}

// --- threads

TEST(CudaIpcThreads, EachDriveOneEnd) {
  IpcPair pair(shm());
  const std::uint64_t seed = test_seed();
  const auto run = [&](int rank) {
    CudaIpcConnection& ipc = *pair.ends[rank];
    EXPECT_TRUE(eventually([&] {
      ipc.poll();
      return ipc.ready();
    }));
    EXPECT_TRUE(ipc.reaches()) << ipc.refusal();
    DeviceEnd end(std::move(pair.ends[rank]), 0);
    exchange(end, rank, seed);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(StagingThreads, EachDriveOneEnd) {
  Pair pair(shm(), kSlot, 2);
  ASSERT_TRUE(pair.ready);
  const std::uint64_t seed = test_seed();
  const auto run = [&](int rank) {
    DeviceEnd end(std::make_unique<StagingConnection>(std::move(pair.ends[rank]),
                                                      context_of_device(0), kCredits),
                  0);
    exchange(end, rank, seed);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// --- no memory on a path that repeats

/// Does the processor's part of a call allocate? The devices' parts are given to them before.
bool allocates(DeviceEnd& from, DeviceEnd& to, const CallMessages& call) {
  const OnDevice device;
  const TestMemory<std::byte> source(call.data.size() + 1), sink(call.data.size() + 1);
  from.send_from(source.at(), call);
  to.receive_into(sink.at(), call);
  bool any = false;
  FailingAllocations::arm(1, FailingAllocations::Mode::one);
  try {
    from.announce_sending(call);
    to.announce_receiving(call);
    eventually([&] {
      from.step();
      to.step();
      return from.port().settled() && to.port().settled();
    });
  } catch (const std::bad_alloc&) {
    any = true;
  }
  any = FailingAllocations::disarm() || any;
  EXPECT_TRUE(run_to_end(from, to));
  return any;
}

TEST(DevicePortMemory, IsKeptFromCallToCall) {
  NEEDS_FAILING_ALLOCATIONS();
  const std::uint64_t seed = test_seed();
  IpcPair ipc(shm());
  ASSERT_TRUE(ipc.settle());
  Pair plain(shm(), kSlot, 2);
  ASSERT_TRUE(plain.ready);
  for (const bool staged : {false, true}) {
    const auto connection = [&](int i) -> std::unique_ptr<Connection> {
      if (!staged) return std::move(ipc.ends[i]);
      return std::make_unique<StagingConnection>(std::move(plain.ends[i]), context_of_device(0),
                                                 kCredits);
    };
    DeviceEnd from(connection(0), 0), to(connection(1), 0);
    const CallMessages first(seed, 40, kSlot), second(seed + 1, 40, kSlot);
    from.send(first);
    to.receive(first);
    ASSERT_TRUE(run_to_end(from, to));
    EXPECT_FALSE(allocates(from, to, second)) << (staged ? "staging" : "IPC");
  }
}

}  // namespace
}  // namespace coll::test
