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

Result<std::unique_ptr<FusedExecutor>> make_fused(const std::vector<Card>& cards, Rank rank,
                                                  StreamDevice& gpu) {
  const Card& own = cards[static_cast<std::size_t>(rank)];
  std::set<std::string> devices;
  for (const Card& card : cards) {
    if (!card.by_gpu) return failed(Code::unsupported, "not all ranks have a GPU that moves calls");
    if (card.process != own.process || card.process == 0)
      return failed(Code::unsupported, "the ranks are several processes");
    devices.insert(card.device);
  }
  for (const std::string& device : devices) {
    if (device == own.device) continue;
    COLL_ASSIGN(const int ordinal, StreamDevice::ordinal_at_bus(device));
    int reaches = 0;
    const int error = gpu.driver().can_access_peer(&reaches, gpu.ordinal(), ordinal);
    if (error != 0 || reaches == 0)
      return failed(Code::unsupported, "GPU " + own.device + " does not reach GPU " + device);
  }
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
                                                StreamDevice& gpu) {
  Result<std::unique_ptr<FusedExecutor>> made = make_fused(cards, rank, gpu);
  if (made.ok()) return *std::move(made);
  log(LogLevel::info, "GPUs move calls without fused kernels: " + made.status().text());
  return nullptr;
}

}  // namespace coll
