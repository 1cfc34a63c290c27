// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#include "communicator/engine/device_mover.hpp"

#include "planner/plan_cut.hpp"
#include "reduce/device/device_kernels.hpp"

namespace coll {
namespace {

constexpr ProgramLanes kLanes{.collectives = 0x2000, .pairs = 0x6000};

}  // namespace

DeviceMover::DeviceMover(Rank rank, const Membership& membership, ScratchPool& pool,
                         MemoryCounts& counts)
    : gpu_(*membership.gpu),
      least_class_(size_class(
          static_cast<std::uint64_t>(membership.gpu_world->costs().gpu.device_least_bytes))),
      executor_(gpu_, reduce::device_kernels()),
      links_(gpu_.context(), membership.gpu_world->credits),
      programs_(rank, membership, *membership.gpu_world, kLanes, executor_, pool, counts, &links_) {
}

bool DeviceMover::moves(const Call& call, const PlanKey& key) const {
  const bool by_kernels = !reduces(call.collective) || !is_own(call.op);
  // Lanes have streams that all runs share, so a send would hold up the receive that its peer
  // needs.
  return key.size_class >= least_class_ && key.spec.ranks > 1 && !call.is_pair() && by_kernels;
}

DeviceMover::Prepared DeviceMover::prepared(const Call& call, const PlanKey& key) {
  if (!reduces(call.collective)) return {key, ReduceOp::sum, DataType::uint8};
  return {key, call.op, call.type};
}

bool DeviceMover::is_prepared(const Call& call, const PlanKey& key) const {
  const std::lock_guard lock(mutex_);
  return prepared_.contains(prepared(call, key));
}

Status DeviceMover::prepare(const Call& call, const PlanKey& key) {
  if (reduces(call.collective)) COLL_TRY(executor_.prepare(call.op, call.type));
  const std::lock_guard lock(mutex_);
  prepared_.insert(prepared(call, key));
  return {};
}

}  // namespace coll
