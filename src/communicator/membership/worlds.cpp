// SPDX-License-Identifier: Apache-2.0
// The worlds that plans are made from.
#include <sched.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "communicator/membership/membership_steps.hpp"
#include "communicator/membership/settings_on_cards.hpp"
#include "planner/networks/device_network.hpp"

namespace coll {
namespace {

/// How many these ranks may use.
int cores_of(const std::vector<Card>& cards, std::span<const Rank> ranks) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const Rank rank : ranks) CPU_OR(&all, &all, &cards[static_cast<std::size_t>(rank)].cpus);
  return std::max(1, CPU_COUNT(&all));
}

double ranks_per_core(const std::vector<Card>& cards, std::span<const Rank> ranks) {
  return static_cast<double>(ranks.size()) / cores_of(cards, ranks);
}

Neighbours neighbours_of(const std::vector<Card>& cards, Rank rank, const Membership& membership) {
  const std::vector<Rank> ranks = with_peers(rank, membership, [](const PathCapabilities& path) {
    return path.medium < PathMedium::rdma;
  });
  return {.ranks = static_cast<std::uint32_t>(ranks.size()),
          .per_core = ranks_per_core(cards, ranks)};
}

Status make_world(const std::vector<Card>& cards, const std::vector<Reach>& reaches,
                  const std::vector<Seating>& seatings, Rank rank, Membership& out) {
  World& world = out.world;
  world.layout = layout_of(cards, firsts_of_hosts(reaches), seatings, rank);
  std::uint64_t slot = ~std::uint64_t{0}, slice = slot;
  std::uint32_t used = 0;
  PathKinds kinds;
  for (const Reach& reach : reaches) {
    used |= reach.used;
    kinds.add(reach.kinds);
  }
  for (std::size_t i = 0; i < cards[0].offers.size(); ++i) {
    if ((used >> i & 1) == 0) continue;
    const Card::Offer& offer = cards[0].offers[i];
    slot = std::min(slot, offer.slot_bytes);
    slice = std::min(slice, offer.slice_bytes);
  }
  if (slot != ~std::uint64_t{0}) {
    world.slot_bytes = static_cast<std::uint32_t>(slot);
    world.passing_bytes = static_cast<std::uint32_t>(slice);
  }
  world.shared_memory = kinds.all_share_memory();
  world.view.path = cost_of(kinds.costliest());
  world.view.between = cost_of(std::max(kinds.costliest(), PathMedium::kernel));
  const auto crowd = [&](std::span<const Rank> ranks) {
    world.view.ranks_per_core = std::max(world.view.ranks_per_core, ranks_per_core(cards, ranks));
    world.view.cores.push_back(static_cast<std::uint32_t>(cores_of(cards, ranks)));
  };
  if (kinds.costliest() == PathMedium::kernel) {
    // All on one machine, whatever memory they share.
    std::vector<Rank> all(cards.size());
    std::iota(all.begin(), all.end(), 0);
    crowd(all);
  } else {
    for (Rank host = 0; host < world.layout.hosts(); ++host) crowd(world.layout.members_of(host));
  }
  std::vector<ProbeCost> measured;
  for (const Card& card : cards) measured.push_back(card.measured);
  world.view.measured = agreed(measured, world.layout);
  const SharedSettings& settings = cards[0].settings;
  world.algorithm = settings.algorithm;
  world.cut = {settings.lanes, settings.slice_bytes};
  world.order = settings.order;
  if (settings.credits != 0)
    out.credits = world.credits = std::max(settings.credits, kLeastCredits);
  if (!cards[0].tuning.empty()) {
    Result<TuningTable> tuning = read_tuning_json(cards[0].tuning, "rank 0's tuning table");
    if (!tuning.ok()) return unreadable(0, "tuning table").with_context(tuning.status().text());
    world.tuning =
        tuning->points_for(scope_of(world.layout, world.shared_memory, world.view.ranks_per_core));
    world.tuning_file = cards[0].tuning_file;
    if (tuning->model) world.model = std::make_shared<const CostModel>(*tuning->model);
  }
  if (kinds.costliest() == PathMedium::rdma)
    world.model = with_rdma_links(world.model, slowest_links(cards, used));
  world.view.factors = copy_factors(world.costs(), world.view.measured);
  return {};
}

/// Slots of a connection between GPUs, in each direction: of a megabyte each, in a GPU's memory.
constexpr std::uint32_t kGpuCredits = 4;

}  // namespace

std::shared_ptr<const World> world_of_gpus(const World& hosts, const std::vector<Card>& cards,
                                           const std::vector<Seating>& seatings, Rank rank,
                                           DeviceMoves moves) {
  World world = hosts;
  const std::vector<Rank> firsts = firsts_of_gpus(cards);
  world.layout = layout_of(cards, firsts, seatings, rank);
  const std::vector<DeviceWays> ways = ways_by_host(firsts, seatings);
  std::vector<DeviceCopyCosts> measured;
  for (const Card& card : cards) measured.push_back(card.copies);
  set_device_network(world, ways, measured, moves);
  world.passing_bytes =
      std::min(world.slot_bytes, static_cast<std::uint32_t>(world.costs().gpu.slice_bytes));
  world.credits = kGpuCredits;
  // Each lane of streams is one, and a GPU has few queues for all streams of a process: in one
  // queue, a stream that waits holds up others. Each lane of a kernel needs blocks, and these are
  // few.
  world.max_lanes = 2;
  world.tuning.clear();
  return std::make_shared<const World>(std::move(world));
}

Status finish_membership(const std::vector<Card>& cards, const std::vector<Reach>& reaches,
                         const Seatings& seatings, Rank rank, Membership& out) {
  if (rank == 0) warn_of_other_settings(cards);
  for (const Card& card : cards) out.members.push_back(card.member);
  COLL_TRY(make_world(cards, reaches, seatings.hosts, rank, out));
  out.neighbours = neighbours_of(cards, rank, out);
  const GpuMoves by_all = moved_by_all(cards);
  out.gpu_reduces = by_all == GpuMoves::everything;
  if (by_all != GpuMoves::nothing) {
    out.gpu_world = world_of_gpus(out.world, cards, seatings.gpus, rank, DeviceMoves::by_streams);
  } else {
    out.gpu = nullptr;
  }
  return {};
}

}  // namespace coll
