// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#pragma once
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "communicator/calls/program_cache.hpp"
#include "communicator/membership/device_links.hpp"
#include "executor/device/exchange_executor.hpp"
#include "executor/device/stream_executor.hpp"

namespace coll {

/// The executors, the plans and the connections of calls that GPUs move: sends and receives by
/// copies that the processor starts; others by fused kernels where the ranks have them and the call
/// allows it, else by streams. A connection serves one of the three.
class DeviceMover {
 public:
  /// The membership has a GPU.
  DeviceMover(Rank rank, const Membership& membership, ScratchPool& pool, MemoryCounts& counts);

  /// The programs of such calls, if GPUs move them; else null. The same answer on all ranks.
  [[nodiscard]] ProgramCache* programs_for(const Call& call, const PlanKey& key);
  /// Who runs these programs, for a person.
  [[nodiscard]] const char* name_of(const ProgramCache& programs) const;
  [[nodiscard]] StreamDevice& gpu() const { return gpu_; }
  /// Makes the connections of sends and receives that GPUs move, while the ranks join: to take
  /// memory later may wait for streams, and those for such an exchange. All ranks call it. Where
  /// one cannot, the host moves sends and receives, on all ranks. Fails if they cannot agree.
  Status agree_on_exchanges(const Assembly& meeting);
  void stop_reading();
  /// Is there all of the GPU's that a call has in common with those that repeat it? From any
  /// thread.
  [[nodiscard]] bool is_prepared(const Call& call, const PlanKey& key) const;
  /// Makes what there has to be beside the program.
  Status prepare(const Call& call, const PlanKey& key);

 private:
  /// A call's key, and which kernels it needs.
  using Prepared = std::tuple<PlanKey, ReduceOp, DataType>;
  static Prepared prepared(const Call& call, const PlanKey& key);
  Status connect_exchanges();

  StreamDevice& gpu_;
  const bool reduces_;  ///< all ranks' GPUs do
  const std::uint32_t least_class_, least_fused_class_;
  StreamExecutor streams_;
  ExchangeExecutor exchanges_;
  DeviceLinks links_, fused_links_;
  ProgramCache programs_;  ///< of the streams
  const World exchange_world_;
  ProgramCache exchange_programs_;       ///< of sends and receives
  std::vector<bool> exchanges_with_;     ///< by rank
  std::unique_ptr<ProgramCache> fused_;  ///< null: the ranks have no fused kernels
  mutable std::mutex mutex_;
  std::set<Prepared> prepared_;  ///< guarded by the mutex
};

}  // namespace coll
