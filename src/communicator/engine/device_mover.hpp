// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#pragma once
#include <mutex>
#include <set>
#include <tuple>

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
  /// Is there all that a call has in common with those that repeat it? From any thread.
  [[nodiscard]] bool is_prepared(const Call& call, const PlanKey& key) const;
  /// Makes what there has to be beside the program.
  Status prepare(const Call& call, const PlanKey& key);

 private:
  /// A call's key, and which kernels it needs.
  using Prepared = std::tuple<PlanKey, ReduceOp, DataType>;
  static Prepared prepared(const Call& call, const PlanKey& key);

  StreamDevice& gpu_;
  const std::uint32_t least_class_;
  StreamExecutor executor_;
  DeviceLinks links_;
  ProgramCache programs_;
  mutable std::mutex mutex_;
  std::set<Prepared> prepared_;  ///< guarded by the mutex
};

}  // namespace coll
