// SPDX-License-Identifier: Apache-2.0
// Messages of GPUs that RDMA devices read in the GPUs' memory.
#include <gtest/gtest.h>

#include "sys/memory/memory_places.hpp"
#include "transports/device_ends.hpp"
#include "transports/verbs/on_emulated.hpp"

namespace coll::test {
namespace {

constexpr std::size_t kSlotBytes = 16 << 10;  // some messages are long enough to be lent, some not
constexpr std::uint32_t kSlots = 3;

/// A connection over RDMA, with a GPU at either end.
class GpuPair {
 public:
  explicit GpuPair(const Backend& backend = on_emulated("gpu", 1, {}))
      : hosts_(backend, kSlotBytes) {
    if (!hosts_.ready) return;
    for (int i : {0, 1}) {
      auto staging = std::make_unique<StagingConnection>(std::move(hosts_.ends[i]),
                                                         context_of_device(0), kSlots);
      port[i] = staging->device_port();
      if (port[i] != nullptr) ends[i] = std::make_unique<DeviceEnd>(std::move(staging), 0);
    }
  }
  [[nodiscard]] bool ready() const { return ends[0] && ends[1]; }
  /// Where the slots to send from are.
  [[nodiscard]] std::byte* slots(int end) const {
    return reinterpret_cast<std::byte*>(port[end]->sending().slots);
  }
  [[nodiscard]] MemoryKind kind(int end) const { return place_of_memory(slots(end)).kind; }
  bool finish() {
    return eventually([&] {
      for (const auto& end : ends) end->step();
      return (ends[0]->over() && ends[1]->over()) || !ends[0]->connection().status().ok() ||
             !ends[1]->connection().status().ok();
    });
  }
  /// So many messages each way, and they are right.
  void exchange(int messages, std::size_t longest = kSlotBytes) {
    for (const std::uint64_t call : {1U, 2U}) {
      const CallMessages there(test_seed() + call, messages, longest);
      const CallMessages back(test_seed() + call + 7, messages, longest);
      ends[0]->send(there);
      ends[1]->receive(there);
      ends[1]->send(back);
      ends[0]->receive(back);
      ASSERT_TRUE(finish());
      for (const auto& end : ends) {
        ASSERT_TRUE(end->connection().status().ok()) << end->connection().status().text();
        end->check();
      }
    }
  }

 private:
  Pair hosts_;

 public:
  DevicePort* port[2] = {};
  std::unique_ptr<TestEnd> ends[2];
};

TEST(VerbsGpus, MessagesLeaveFromTheMemoryOfGpus) {
  for (const int ports : {1, 2}) {
    GpuPair pair(on_emulated("gpu", ports, {}));
    ASSERT_TRUE(pair.ready());
    for (const int end : {0, 1}) EXPECT_EQ(pair.kind(end), MemoryKind::device);
    pair.exchange(40);
  }
}

/// The processor would have to read it.
TEST(VerbsGpus, NoMessageOfAGpuIsCopiedIntoAWorkRequest) {
  GpuPair pair;
  ASSERT_TRUE(pair.ready());
  const CallMessages call(test_seed(), 20, 64);
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < call.count(); ++i) filled += call.bytes(i) > 0 ? 1U : 0U;
  const auto before = Fabric::now().counts();
  pair.ends[0]->send(call);
  pair.ends[1]->receive(call);
  ASSERT_TRUE(pair.finish());
  pair.ends[1]->check();
  const auto after = Fabric::now().counts();
  const std::uint64_t not_copied =
      (after.writes - before.writes) - (after.inline_writes - before.inline_writes);
  EXPECT_GE(not_copied, filled);
}

TEST(VerbsGpus, WhereTheDeviceRefusesTheMemoryMessagesLeaveThroughTheHost) {
  Fabric::now().fail("ibv_reg_dmabuf_mr", EOPNOTSUPP);
  Fabric::now().before("ibv_reg_dmabuf_mr", [] { Fabric::now().fail("ibv_reg_mr", EINVAL); });
  GpuPair pair;
  ASSERT_TRUE(pair.ready());
  EXPECT_EQ(pair.kind(0), MemoryKind::host);
  EXPECT_EQ(pair.kind(1), MemoryKind::device) << "each end for itself";
  pair.exchange(20);
}

TEST(VerbsGpus, WithoutADmaBufADeviceMayKnowTheAddress) {
  Fabric::now().fail("ibv_reg_dmabuf_mr", EOPNOTSUPP);
  GpuPair pair;
  ASSERT_TRUE(pair.ready());
  EXPECT_EQ(pair.kind(0), MemoryKind::device);
  pair.exchange(10);
}

/// Only by the processors' bus, or not at all, would the devices reach each other.
TEST(VerbsGpus, WhereTheNetworkIsFarFromTheGpuMessagesLeaveThroughTheHost) {
  Backend backend = on_emulated("far", 2, {});
  backend.make = [](const TransportSpec& spec) {
    auto rails = Fabric::now().rails({spec.rank, spec.rank + 2});
    rails[1].beside_gpu = false;
    return VerbsTransport::make(spec, Fabric::now().table(), {}, rails);
  };
  GpuPair pair(backend);
  ASSERT_TRUE(pair.ready());
  for (const int end : {0, 1}) EXPECT_EQ(pair.kind(end), MemoryKind::host);
  pair.exchange(10);
}

/// Else a device would read memory of somebody else.
TEST(VerbsGpus, DevicesForgetTheMemoryBeforeItIsFreed) {
  GpuPair pair;
  ASSERT_TRUE(pair.ready());
  std::byte* const slots = pair.slots(0);
  MemoryKind kind = MemoryKind::host;
  bool forgotten = false;
  Fabric::now().before("ibv_dereg_mr", [&] {
    forgotten = true;
    kind = place_of_memory(slots).kind;
  });
  pair.ends[0].reset();
  EXPECT_TRUE(forgotten);
  EXPECT_EQ(kind, MemoryKind::device);
  EXPECT_EQ(place_of_memory(slots).kind, MemoryKind::host) << "it was freed";
}

}  // namespace
}  // namespace coll::test
