// SPDX-License-Identifier: Apache-2.0
// Whether the ranks' GPUs can move calls by kernels that talk to each other.
#include "communicator/membership/fused_kernels_of.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "base/log.hpp"
#include "base/made_once.hpp"
#include "collectives/algorithms.hpp"
#include "executor/device/fused/fused_kernels.hpp"
#include "sys/proof.hpp"
#include "transports/cuda_ipc/cuda_ipc_trial.hpp"

namespace coll {
namespace {

FusedShape fused_shape() {
  FusedShape shape;
  shape.least_blocks = 8;  // two copies of a schedule's four lanes
  shape.one_shot = [](const CollectiveSpec& spec, Rank rank) {
    return find_algorithm("one_shot")->build(spec, Layout::flat(spec.ranks), rank);
  };
  return shape;
}

/// Whether this rank's GPU, `own`, reaches `device`, another GPU of this process, as the driver
/// says.
Status check_reach(StreamDevice& gpu, const std::string& own, const std::string& device) {
  COLL_ASSIGN(const int ordinal, StreamDevice::ordinal_at_bus(device));
  int reaches = 0;
  const int error = gpu.driver().can_access_peer(&reaches, gpu.ordinal(), ordinal);
  if (error == 0 && reaches != 0) return {};
  return failed(Code::unsupported, "GPU " + own + " does not reach GPU " + device);
}

bool are_several_processes(const std::vector<Card>& cards) {
  return std::ranges::any_of(
      cards, [&](const Card& card) { return card.process != cards.front().process; });
}

Result<std::unique_ptr<FusedExecutor>> make_fused(const std::vector<Card>& cards, Rank rank,
                                                  StreamDevice& gpu) {
  const Card& own = cards[static_cast<std::size_t>(rank)];
  std::set<std::string> devices;
  for (const Card& card : cards) {
    if (card.gpu_moves == GpuMoves::nothing)
      return failed(Code::unsupported, "not all ranks have a GPU that moves calls");
    if (card.gpu_moves != GpuMoves::everything)
      return failed(Code::unsupported, "not all ranks' GPUs have kernels");
    if (card.ipc_domain.empty() || card.ipc_domain != own.ipc_domain)
      return failed(Code::unsupported,
                    "cuda_ipc does not join rank " + std::to_string(&card - cards.data()) +
                        " and rank " + std::to_string(rank) +
                        ": not on one machine, of other users or namespaces of processes, or "
                        "COLL_TRANSPORTS does not name it");
    if (card.process == 0) return failed(Code::unsupported, "a process has no number of its own");
    const bool same_gpu = card.device == own.device;
    if (card.process == own.process && !same_gpu) devices.insert(card.device);
    if (card.process != own.process && same_gpu) {
      return failed(Code::unsupported,
                    "several processes use GPU " + own.device + ", which runs one at a time");
    }
  }
  for (const std::string& device : devices) COLL_TRY(check_reach(gpu, own.device, device));
  const auto sharing = static_cast<unsigned>(std::ranges::count(cards, own.device, &Card::device));
  COLL_ASSIGN(FusedDevice* const device, FusedDevice::of(gpu, fused_kernels()));
  return FusedExecutor::make(*device, sharing, fused_shape());
}

}  // namespace

std::uint64_t number_of_process() {
  return made_once([] {
    std::uint64_t number = 0;
    const Result<std::string> random = random_bytes(sizeof number);  // 0: no number
    if (random.ok()) random->copy(reinterpret_cast<char*>(&number), sizeof number);
    return number;
  });
}

std::unique_ptr<FusedExecutor> fused_kernels_of(const std::vector<Card>& cards, Rank rank,
                                                StreamDevice& gpu, std::string& offer) {
  Result<std::unique_ptr<FusedExecutor>> made = [&]() -> Result<std::unique_ptr<FusedExecutor>> {
    COLL_ASSIGN(std::unique_ptr<FusedExecutor> executor, make_fused(cards, rank, gpu));
    if (are_several_processes(cards)) {
      COLL_ASSIGN(offer, offer_memory(gpu.context(), executor->memory()));
    }
    return executor;
  }();
  if (made.ok()) return *std::move(made);
  log(LogLevel::info, "GPUs move calls without fused kernels: " + made.status().text());
  return nullptr;
}

Result<bool> all_ranks_have_fused_kernels(const Assembly& meeting,
                                          const std::vector<Reach>& reaches,
                                          const StreamDevice* gpu, FusedExecutor* own) {
  if (!std::ranges::all_of(reaches, &Reach::fused)) {
    if (own != nullptr) own->rest();
    return false;
  }
  if (std::ranges::all_of(reaches, [](const Reach& one) { return one.gpu_memory.empty(); }))
    return true;
  const std::string& offer = reaches[static_cast<std::size_t>(meeting.rank)].gpu_memory;
  std::string refusal;
  for (std::size_t peer = 0; peer < reaches.size() && refusal.empty(); ++peer) {
    const Status tried = try_offered_memory(gpu->context(), offer, reaches[peer].gpu_memory);
    if (!tried.ok()) {
      refusal = "rank " + std::to_string(meeting.rank) + " does not reach the GPU of rank " +
                std::to_string(peer) + ": " + tried.text();
    }
  }
  const Result<std::vector<std::string>> refusals = meeting.exchange(refusal);
  if (!refusals.ok()) {
    own->keep_memory();  // another rank may have it open
    return refusals.status();
  }
  for (const std::string& each : *refusals) {
    if (each.empty()) continue;
    own->rest();
    log(LogLevel::info, "GPUs move calls without fused kernels: " + each);
    return false;
  }
  return true;
}

}  // namespace coll
