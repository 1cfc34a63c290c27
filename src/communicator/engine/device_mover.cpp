// SPDX-License-Identifier: Apache-2.0
// What a communicator has where its ranks' GPUs move calls.
#include "communicator/engine/device_mover.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "planner/plan_cut.hpp"
#include "reduce/device/device_kernels.hpp"

namespace coll {
namespace {

constexpr ProgramLanes kDeviceLanes{.collectives = 0x2000, .pairs = 0x6000};
constexpr ProgramLanes kExchangeLanes{.collectives = 0x2800, .pairs = 0x6800};
constexpr ProgramLanes kFusedLanes{.collectives = 0x3000, .pairs = 0x7000};

/// Messages of one lane follow one another closely enough, so another would take memory for
/// nothing.
World world_of_exchanges(const Membership& membership) {
  World world = *membership.gpu_world;
  world.max_lanes = 1;
  return world;
}

/// Have ranks of such a host sends that GPUs move? Each connection takes some MiB of a GPU.
bool has_exchanges(const std::vector<Rank>& of_host) {
  constexpr std::size_t kMost = 8;
  return of_host.size() >= 2 && of_host.size() <= kMost;
}

bool any_host_has_exchanges(const Layout& layout) {
  for (Rank host = 0; host < layout.hosts(); ++host)
    if (has_exchanges(layout.members_of(host))) return true;
  return false;
}

/// The ranks to whose GPU this one's writes in sends, by rank. The same answer at both ends.
std::vector<bool> exchange_peers(Rank rank, const Membership& membership) {
  const Layout& layout = membership.gpu_world->layout;
  std::vector<bool> peers(layout.host.size());
  const auto& near = layout.members_of(layout.host[static_cast<std::size_t>(rank)]);
  if (!has_exchanges(near)) return peers;
  for (const Rank peer : near) peers[static_cast<std::size_t>(peer)] = peer != rank;
  return peers;
}

std::uint32_t class_of(double bytes) {
  return size_class(static_cast<std::uint64_t>(bytes));
}

}  // namespace

DeviceMover::DeviceMover(Rank rank, const Membership& membership, ScratchPool& pool,
                         MemoryCounts& counts)
    : gpu_(*membership.gpu),
      reduces_(membership.gpu_reduces),
      least_class_(class_of(membership.gpu_world->costs().gpu.device_least_bytes)),
      least_fused_class_(class_of(membership.gpu_world->costs().gpu.fused_least_bytes)),
      streams_(gpu_, reduce::device_kernels()),
      exchanges_(gpu_),
      links_(gpu_.context(), membership.gpu_world->credits, false),
      fused_links_(gpu_.context(), membership.gpu_world->credits, true),
      programs_(rank, membership, *membership.gpu_world, kDeviceLanes, streams_, pool, counts,
                &links_),
      exchange_world_(world_of_exchanges(membership)),
      exchange_programs_(rank, membership, exchange_world_, kExchangeLanes, exchanges_, pool,
                         counts, &links_),
      exchanges_with_(exchange_peers(rank, membership)) {
  if (membership.fused_world == nullptr) return;
  fused_ = std::make_unique<ProgramCache>(rank, membership, *membership.fused_world, kFusedLanes,
                                          *membership.fused, pool, counts, &fused_links_);
}

ProgramCache* DeviceMover::programs_for(const Call& call, const PlanKey& key) {
  if (reduces(call.collective) && (!reduces_ || is_own(call.op))) return nullptr;
  if (key.spec.ranks == 1 || call.tagged()) return nullptr;
  if (call.is_pair()) {
    const auto peer = static_cast<std::size_t>(call.root);
    const bool near = peer < exchanges_with_.size() && exchanges_with_[peer];
    return near && key.size_class >= least_class_ ? &exchange_programs_ : nullptr;
  }
  // A fused kernel cuts all blocks alike.
  if (fused_ && key.size_class >= least_fused_class_ && !call.unequal()) return fused_.get();
  return key.size_class >= least_class_ ? &programs_ : nullptr;
}

Status DeviceMover::agree_on_exchanges(const Assembly& meeting) {
  if (!any_host_has_exchanges(exchange_world_.layout)) return {};
  const Status connected = caught([this] { return connect_exchanges(); });
  // No rank goes on before all are done: a call of it might wait on a stream by then.
  COLL_ASSIGN(const std::vector<std::string> troubles,
              meeting.exchange(connected.ok() ? "" : connected.text()));
  for (std::size_t rank = 0; rank < troubles.size(); ++rank) {
    if (troubles[rank].empty()) continue;
    log(LogLevel::info, "the host moves sends and receives of GPUs: rank " + std::to_string(rank) +
                            ": " + troubles[rank]);
    exchanges_with_.assign(exchanges_with_.size(), false);
    break;
  }
  return {};
}

Status DeviceMover::connect_exchanges() {
  constexpr double kLongest_s = 10;
  constexpr std::chrono::microseconds kPause{50};
  std::vector<PlanKey> keys;
  const auto ranks = static_cast<Rank>(exchanges_with_.size());
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (!exchanges_with_[static_cast<std::size_t>(peer)]) continue;
    for (const Collective one : {Collective::send, Collective::recv})
      keys.push_back({{one, ranks, peer}, least_class_});
  }
  for (const PlanKey& key : keys) COLL_TRY(exchange_programs_.prepare(key));
  const Deadline deadline = after(kLongest_s);
  while (true) {
    for (std::size_t i = keys.size(); i-- > 0;) {
      COLL_ASSIGN(const bool connected, exchange_programs_.connect(keys[i]));
      if (connected) keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (keys.empty()) return {};
    if (Clock::now() > deadline) {
      const Rank peer = keys.front().spec.root;
      return failed(Code::deadline, "its GPU and that of rank " + std::to_string(peer) +
                                        " were not connected in time")
          .at_rank(peer);
    }
    std::this_thread::sleep_for(kPause);
  }
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
  if (!reduces(call.collective)) return {key, ReduceOp::sum, DataType::uint8};
  return {key, call.op, call.type};
}

bool DeviceMover::is_prepared(const Call& call, const PlanKey& key) const {
  if (call.is_pair()) return true;
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
