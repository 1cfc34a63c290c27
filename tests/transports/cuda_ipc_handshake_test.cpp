// SPDX-License-Identifier: Apache-2.0
// How two ends find out whether their devices reach each other, and that they are in one call.
#include <initializer_list>

#include "cuda_ipc_pair.hpp"

namespace coll::test {
namespace {

void expect_handshakes(std::initializer_list<int> others) {
  for (const int other : others) {
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
    if (other == 0) continue;
    auto* const peer = reinterpret_cast<CUcontext>(context_of_device(other));
    const OnDevice device;
    EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(peer, 0));
  }
}
TEST(CudaIpcHandshake, WorksForOneGpu) {
  expect_handshakes({0});
}
TEST(CudaIpcHandshake, WorksForTwoGpus) {
  NEEDS_TWO_GPUS_THAT_REACH_EACH_OTHER();
  expect_handshakes({1, 1});
}

/// The end that is ready first may not look after the connection for long.
TEST(CudaIpcHandshake, IsOverForBothOnceItIsForOne) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    IpcPair pair(fake({.seed = round, .max_delay = 5, .max_refusals = 2}));
    CudaIpcConnection& a = *pair.ends[0];
    CudaIpcConnection& b = *pair.ends[1];
    ASSERT_TRUE(eventually([&] {
      a.poll();
      if (!a.ready()) b.poll();
      return a.ready() || b.ready();
    }));
    CudaIpcConnection& later = a.ready() ? b : a;
    ASSERT_TRUE(eventually([&] {
      later.poll();
      return later.ready();
    }));
    EXPECT_TRUE(a.reaches() && b.reaches());
  }
}

TEST(CudaIpcCalls, AreToldOnceWhereTheyRepeat) {
  IpcPair pair(shm());
  ASSERT_TRUE(pair.settle());
  DevicePort& from = *pair.ends[0]->device_port();
  DevicePort& to = *pair.ends[1]->device_port();
  for (const std::uint64_t digest : {5U, 6U, 5U}) {
    for (std::uint32_t slot = 0; slot < kCredits; ++slot) {
      from.will_send(slot, 8, digest);
      to.will_receive(slot, 8, digest);
    }
    EXPECT_FALSE(from.settled());
    EXPECT_FALSE(to.settled());
    EXPECT_TRUE(eventually([&] {
      from.progress();
      to.progress();
      return from.settled() && to.settled();
    }));
    EXPECT_FALSE(from.progress() || to.progress()) << "there was one message only";
    from.will_send(0, 9, digest);
    to.will_receive(0, 9, digest);
    EXPECT_TRUE(from.settled() && to.settled()) << "the same call, or the next one like it";
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
  NEEDS_TWO_GPUS();
  if (!is_emulated()) GTEST_SKIP() << "others use a real device's memory";
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
  const auto end = std::make_shared<CudaIpcEnd>();
  const Status made = end->make(context, kSlot, kCredits);
  ASSERT_TRUE(made.ok()) << made.text();
  CudaIpcHello own;
  own.process = memory_proof();
  own.credits = kCredits;
  ASSERT_TRUE(CudaIpcReach::introduce(context, own).ok());
  ASSERT_TRUE(end->describe(own).ok());
  const OfferedObject offer(end);
  own.offered = offer.number();
  const auto code_of = [&](const CudaIpcHello& peer) {
    return CudaIpcReach().open(context, own, peer).code();
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

}  // namespace
}  // namespace coll::test
