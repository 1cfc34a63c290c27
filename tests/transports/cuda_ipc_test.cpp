// SPDX-License-Identifier: Apache-2.0
// How two ends find out whether their devices reach each other: in one process and in two.
#include <array>
#include <cstdlib>
#include <thread>

#include "device_ends.hpp"
#include "emulation/cuda/other_process.hpp"
#include "failing_allocations.hpp"
#include "transports/fake/fake_transport.hpp"

namespace coll::test {
namespace {

using emulation_test::kSocketOfOther;
using emulation_test::OtherProcess;
using emulation_test::ProcessLink;

constexpr std::size_t kSlot = 4096;
constexpr std::uint32_t kCredits = 3;

Backend shm() {
  return {.name = "shm", .make = make_shm_transport};
}
Backend fake() {
  auto network = std::make_shared<FakeNetwork>();
  return {.name = "fake",
          .make = [network](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
            return make_fake_transport(network, spec);
          }};
}

using IpcPointer = std::unique_ptr<CudaIpcConnection>;

/// Both ends in this process, before the first `poll`.
struct IpcPair {
  explicit IpcPair(const Backend& backend, int other_device = 0, std::size_t slot_bytes = kSlot,
                   std::uint32_t other_credits = kCredits)
      : inner(backend, slot_bytes, 1) {
    if (!inner.ready) return;
    for (const int i : {0, 1}) {
      const CudaContext context = context_of_device(i == 0 ? 0 : other_device);
      ends[i] = std::make_unique<CudaIpcConnection>(std::move(inner.ends[i]), context,
                                                    i == 0 ? kCredits : other_credits);
    }
  }
  bool settle() { return ends[1] != nullptr && settle_ipc(*ends[0], *ends[1]); }

  Pair inner;
  IpcPointer ends[2];
};

/// The inner connections work as if nothing had been, and so does staging on them.
void fall_back(IpcPair& pair, const int (&devices)[2]) {
  std::unique_ptr<DeviceEnd> ends[2];
  for (const int i : {0, 1}) {
    EXPECT_FALSE(pair.ends[i]->reaches());
    EXPECT_NE(pair.ends[i]->refusal(), "");
    EXPECT_EQ(pair.ends[i]->device_port(), nullptr);
    std::unique_ptr<Connection> inner = pair.ends[i]->give_back();
    pair.ends[i].reset();
    EXPECT_TRUE(inner->ready() && inner->status().ok()) << inner->status().text();
    ends[i] =
        std::make_unique<DeviceEnd>(std::make_unique<StagingConnection>(
                                        std::move(inner), context_of_device(devices[i]), kCredits),
                                    devices[i]);
  }
  const CallMessages call(test_seed(), 5, ends[0]->connection().slot_bytes());
  ends[0]->send(call);
  ends[1]->receive(call);
  EXPECT_TRUE(run_to_end(*ends[0], *ends[1]));
  ends[1]->check();
}

TEST(CudaIpcHandshake, WorksForOneGpuAndForTwo) {
  for (const int other : {0, 1}) {
    IpcPair pair(shm(), other);
    EXPECT_FALSE(pair.ends[0]->ready());
    EXPECT_EQ(pair.ends[0]->device_port(), nullptr);
    pair.ends[0]->poll();
    EXPECT_FALSE(pair.ends[0]->ready()) << "the other end has not said anything";
    ASSERT_TRUE(pair.settle());
    for (const IpcPointer& end : pair.ends) {
      EXPECT_TRUE(end->reaches()) << end->refusal();
      ASSERT_NE(end->device_port(), nullptr);
      EXPECT_GE(end->buffer_bytes(), kCredits * kSlot);
    }
    // The sender writes where the receiver reads, without a copy in between.
    EXPECT_EQ(pair.ends[0]->device_port()->sending().slots,
              pair.ends[1]->device_port()->receiving().slots);
  }
}

TEST(CudaIpcHandshake, LeavesTheEndsTheirMemoryWhenOneGoes) {
  IpcPair pair(shm());
  ASSERT_TRUE(pair.settle());
  const DeviceRing ring = pair.ends[0]->device_port()->sending();
  const DeviceRing back = pair.ends[0]->device_port()->receiving();
  pair.ends[1].reset();
  // A stream may still write what the peer would have waited for.
  const OnDevice device;
  const TestStream stream;
  EXPECT_CUDA_OK(cuMemsetD32Async(ring.slot(2), 7, kSlot / 4, stream));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, ring.signalled_word(2), 1, 0));
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, back.signalled_word(2), 1, 0));
  stream.synchronize();
}

TEST(CudaIpcHandshake, RefusesAtBothEndsWhereOneHasNoMemory) {
  const OnDevice device(1);
  std::size_t free = 0, total = 0;
  EXPECT_CUDA_OK(cuMemGetInfo_v2(&free, &total));
  CUdeviceptr rest = 0;
  EXPECT_CUDA_OK(cuMemAlloc_v2(&rest, free));
  IpcPair pair(shm(), 1);
  ASSERT_TRUE(pair.settle());
  EXPECT_NE(pair.ends[0]->refusal().find("OUT_OF_MEMORY"), std::string::npos)
      << pair.ends[0]->refusal();
  EXPECT_CUDA_OK(cuMemFree_v2(rest));
  fall_back(pair, {0, 1});
}

TEST(CudaIpcHandshake, RefusesDifferentNumbersOfSlots) {
  IpcPair pair(fake(), 0, kSlot, kCredits + 1);
  ASSERT_TRUE(pair.settle());
  fall_back(pair, {0, 0});
}

TEST(CudaIpcHandshake, RefusesMessagesThatAreTooShortForIt) {
  IpcPair pair(shm(), 0, 64);
  pair.ends[0]->poll();
  EXPECT_TRUE(pair.ends[0]->ready()) << "both ends know it alone";
  ASSERT_TRUE(pair.settle());
  fall_back(pair, {0, 0});
}

TEST(CudaIpcHandshake, FailsWithTheInnerConnection) {
  IpcPair pair(fake());
  pair.ends[0]->poll();
  pair.ends[1].reset();
  EXPECT_TRUE(eventually([&] {
    pair.ends[0]->poll();
    return !pair.ends[0]->status().ok();
  }));
  EXPECT_EQ(pair.ends[0]->status().code(), Code::peer_lost);
  EXPECT_FALSE(pair.ends[0]->ready());
}

/// What another process says is looked at before it is believed.
TEST(CudaIpcHandshake, BelievesNoWrongHello) {
  const CudaContext context = context_of_device(0);
  auto end = CudaIpcEnd::make(context, kSlot, kCredits);
  ASSERT_TRUE(end.ok()) << end.status().text();
  CudaIpcHello own;
  own.process = memory_proof();
  own.credits = kCredits;
  ASSERT_TRUE((*end)->describe(own).ok());
  const OfferedObject offer(*end);
  own.offered = offer.number();
  const auto code_of = [&](const CudaIpcHello& peer) {
    return CudaIpcReach::open(context, own, peer).status().code();
  };
  EXPECT_EQ(code_of(own), Code::ok);
  CudaIpcHello gone = own;
  gone.offered += 1;
  EXPECT_EQ(code_of(gone), Code::peer_lost);
  CudaIpcHello other_version = own;
  other_version.version += 1;
  EXPECT_EQ(code_of(other_version), Code::mismatch);
  // Now as if of another process.
  CudaIpcHello stranger = own;
  stranger.process.number[0] ^= 1;
  EXPECT_EQ(code_of(stranger), Code::system) << "the driver opens no memory of its own process";
  CudaIpcHello wrong = stranger;
  wrong.words_key[1] ^= 1;
  EXPECT_EQ(code_of(wrong), Code::unreachable);
  wrong = stranger;
  wrong.words.inode += 1;
  EXPECT_EQ(code_of(wrong), Code::invalid_argument);
  wrong = stranger;
  wrong.words.descriptor = 0;
  EXPECT_NE(code_of(wrong), Code::ok);
  wrong = stranger;
  wrong.process.pid = 0x7ffffff0;
  EXPECT_EQ(code_of(wrong), Code::peer_lost);
}

// --- without peer access

TEST(CudaIpcFallback, IsTakenByBothEndsWithoutPeerAccess) {
  setenv("EMUCUDA_PEERS", "0", 1);
  { const OtherProcess other("CudaIpcFallback.DISABLED_InOneProcess"); }
  { const OtherProcess other("CudaIpcFallback.DISABLED_InTwoProcesses"); }
  unsetenv("EMUCUDA_PEERS");
}

TEST(CudaIpcFallback, DISABLED_InOneProcess) {
  IpcPair pair(shm(), 1);
  ASSERT_TRUE(pair.settle());
  EXPECT_NE(pair.ends[1]->refusal().find("cannot reach"), std::string::npos)
      << pair.ends[1]->refusal();
  fall_back(pair, {0, 1});
  IpcPair same(shm(), 0);
  ASSERT_TRUE(same.settle());
  EXPECT_TRUE(same.ends[0]->reaches()) << "a GPU always reaches itself";
}

// --- two processes

/// What the two processes tell each other first.
struct Meeting {
  std::uint64_t job = 0;
  int device = 0;
  std::array<char, 500> descriptor{};
};

/// This process's rank and its end of the connection. Rank 0 names the job.
class RankOfTwo {
 public:
  RankOfTwo(const ProcessLink& link, Rank rank, int device) : device_(device) {
    Meeting theirs, own;
    if (rank == 1) theirs = link.receive<Meeting>();
    own.job = rank == 0 ? fresh_job() : theirs.job;
    auto made = make_shm_transport(spec_of(rank, 2, own.job));
    EXPECT_TRUE(made.ok()) << made.status().text();
    transport_ = *std::move(made);
    EXPECT_LT(transport_->descriptor().size(), own.descriptor.size());
    transport_->descriptor().copy(own.descriptor.data(), own.descriptor.size());
    link.send(own);
    if (rank == 0) theirs = link.receive<Meeting>();
    auto opened = transport_->open({.peer = 1 - rank, .lane = 0, .slot_bytes = kSlot, .credits = 2},
                                   theirs.descriptor.data());
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    ipc_ = std::make_unique<CudaIpcConnection>(*std::move(opened), context_of_device(device),
                                               kCredits);
    EXPECT_TRUE(eventually([&] {
      transport_->poll();
      ipc_->poll();
      return ipc_->ready() || !ipc_->status().ok();
    }));
    EXPECT_TRUE(ipc_->status().ok()) << ipc_->status().text();
  }

  [[nodiscard]] CudaIpcConnection& ipc() { return *ipc_; }
  /// The end, as a user has it: by IPC or else by staging.
  DeviceEnd take() {
    if (ipc_->reaches()) return {std::move(ipc_), device_};
    return {std::make_unique<StagingConnection>(ipc_->give_back(), context_of_device(device_),
                                                kCredits),
            device_};
  }

 private:
  int device_;
  std::unique_ptr<Transport> transport_;
  IpcPointer ipc_;
};

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

void be_rank_0(const Wanted& other) {
  const OtherProcess process("CudaIpcProcesses.DISABLED_BeRankOne");
  process.link().send(other);
  RankOfTwo rank(process.link(), 0, 0);
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

TEST(CudaIpcProcesses, MoveMessagesBetweenOneGpuOrTwo) {
  for (const int device : {0, 1}) be_rank_0({device, test_seed(), true});
}

TEST(CudaIpcFallback, DISABLED_InTwoProcesses) {
  be_rank_0({1, test_seed(), false});
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
