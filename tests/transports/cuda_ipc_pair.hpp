// SPDX-License-Identifier: Apache-2.0
// Two ends of CUDA IPC in this process.
#pragma once
#include <memory>

#include "device_ends.hpp"

namespace coll::test {

inline constexpr std::size_t kSlot = 4096;
inline constexpr std::uint32_t kCredits = 3;

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
                                                    i == 0 ? kCredits : other_credits, true);
    }
  }
  bool settle() { return ends[1] != nullptr && settle_ipc(*ends[0], *ends[1]); }

  Pair inner;
  IpcPointer ends[2];
};

/// The inner connections work as if nothing had been, and so does staging on them.
inline void fall_back(IpcPair& pair, const int (&devices)[2]) {
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

}  // namespace coll::test
