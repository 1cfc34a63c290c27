// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#pragma once
#include "communicator/calls/program_cache.hpp"
#include "communicator/membership/device_links.hpp"
#include "executor/device/stream_executor.hpp"

namespace coll {

/// The executor, the plans and the connections of calls that GPUs move.
class DeviceMover {
 public:
  /// The membership has a GPU.
  DeviceMover(Rank rank, const Membership& membership, ScratchPool& pool, MemoryCounts& counts);

  /// Do GPUs move such calls? The same answer on all ranks.
  [[nodiscard]] bool moves(const Call& call, const PlanKey& key) const;
  [[nodiscard]] StreamDevice& gpu() const { return gpu_; }
  [[nodiscard]] ProgramCache& programs() { return programs_; }

 private:
  StreamDevice& gpu_;
  const std::uint32_t least_class_;
  StreamExecutor executor_;
  DeviceLinks links_;
  ProgramCache programs_;
};

}  // namespace coll
