// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#include "communicator/engine/device_mover.hpp"

#include "planner/plan_cut.hpp"
#include "reduce/device/device_kernels.hpp"

namespace coll {
namespace {

constexpr ProgramLanes kDeviceLanes{.collectives = 0x2000, .pairs = 0x6000};
constexpr ProgramLanes kExchangeLanes{.collectives = 0x2800, .pairs = 0x6800};
constexpr ProgramLanes kFusedLanes{.collectives = 0x3000, .pairs = 0x7000};

std::uint32_t class_of(double bytes) {
  return size_class(static_cast<std::uint64_t>(bytes));
}

}  // namespace

DeviceMover::DeviceMover(Rank rank, const Membership& membership, ScratchPool& pool,
                         MemoryCounts& counts)
    : gpu_(*membership.gpu),
      least_class_(class_of(membership.gpu_world->costs().gpu.device_least_bytes)),
      least_fused_class_(class_of(membership.gpu_world->costs().gpu.fused_least_bytes)),
      streams_(gpu_, reduce::device_kernels()),
      exchanges_(gpu_),
      links_(gpu_.context(), membership.gpu_world->credits, false),
      fused_links_(gpu_.context(), membership.gpu_world->credits, true),
      programs_(rank, membership, *membership.gpu_world, kDeviceLanes, streams_, pool, counts,
                &links_),
      exchange_programs_(rank, membership, *membership.gpu_world, kExchangeLanes, exchanges_, pool,
                         counts, &links_) {
  if (membership.fused_world == nullptr) return;
  fused_ = std::make_unique<ProgramCache>(rank, membership, *membership.fused_world, kFusedLanes,
                                          *membership.fused, pool, counts, &fused_links_);
}

ProgramCache* DeviceMover::programs_for(const Call& call, const PlanKey& key) {
  const bool by_kernels = !reduces(call.collective) || !is_own(call.op);
  if (key.spec.ranks == 1 || call.tagged() || !by_kernels) return nullptr;
  if (call.is_pair()) return key.size_class >= least_class_ ? &exchange_programs_ : nullptr;
  // A fused kernel cuts all blocks alike.
  if (fused_ && key.size_class >= least_fused_class_ && !call.unequal()) return fused_.get();
  return key.size_class >= least_class_ ? &programs_ : nullptr;
}

void DeviceMover::stop_reading() {
  programs_.stop_reading();
  exchange_programs_.stop_reading();
  if (fused_) fused_->stop_reading();
}

const char* DeviceMover::name_of(const ProgramCache& programs) const {
  if (&programs == &exchange_programs_) return "copies of the ranks' GPUs";
  return &programs == fused_.get() ? "kernels of the ranks' GPUs" : "streams of the ranks' GPUs";
}

DeviceMover::Prepared DeviceMover::prepared(const Call& call, const PlanKey& key) {
  // Exchanges of one peer and direction share all that they have of the GPU.
  if (call.is_pair()) return {{key.spec, 0}, ReduceOp::sum, DataType::uint8};
  if (!reduces(call.collective)) return {key, ReduceOp::sum, DataType::uint8};
  return {key, call.op, call.type};
}

bool DeviceMover::is_prepared(const Call& call, const PlanKey& key) const {
  const std::lock_guard lock(mutex_);
  return prepared_.contains(prepared(call, key));
}

Status DeviceMover::prepare(const Call& call, const PlanKey& key) {
  if (is_prepared(call, key)) return {};
  if (reduces(call.collective) && programs_for(call, key) == &programs_)
    COLL_TRY(streams_.prepare(call.op, call.type));
  const std::lock_guard lock(mutex_);
  prepared_.insert(prepared(call, key));
  return {};
}

}  // namespace coll
