// SPDX-License-Identifier: Apache-2.0
// Seats the ranks of a host, and makes the layout of all hosts.
#include "communicator/membership/seating.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/log.hpp"
#include "communicator/membership/own_place.hpp"
#include "communicator/membership/published_ways.hpp"
#include "rendezvous/ranks_text.hpp"
#include "topology/find_gpu.hpp"
#include "topology/rings/host_seats.hpp"

namespace coll {
namespace {

CpuSet processors_of(const cpu_set_t& cpus) {
  CpuSet set;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &cpus)) set.add(cpu);
  }
  return set;
}

/// Does it name each of 0 … size-1 once?
bool is_permutation(const std::vector<std::int32_t>& order, std::size_t size) {
  std::vector<bool> seen(size);
  for (const std::int32_t number : order) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= size || seen[at]) return false;
    seen[at] = true;
  }
  return order.size() == size;
}

/// The ranks of each host, in order; hosts count by their first rank.
std::vector<std::vector<Rank>> ranks_by_host(const std::vector<Rank>& firsts) {
  std::vector<std::vector<Rank>> hosts;
  std::vector<std::size_t> host_of;
  for (std::size_t r = 0; r < firsts.size(); ++r) {
    const auto each = static_cast<Rank>(r), first = firsts[r];
    const std::size_t host = first < each ? host_of[static_cast<std::size_t>(first)] : hosts.size();
    if (host == hosts.size()) hosts.emplace_back();
    hosts[host].push_back(each);
    host_of.push_back(host);
  }
  return hosts;
}

bool all_differ(std::vector<NodeId> gpus) {
  std::ranges::sort(gpus);
  return gpus.front() != kNoNode && std::ranges::adjacent_find(gpus) == gpus.end();
}

}  // namespace

void Seating::write(MessageWriter& out) const {
  out.u32(static_cast<std::uint32_t>(places.size()));
  for (const Place& place : places) {
    for (const std::int32_t number : {place.numa, place.island, place.rail}) {
      out.u32(static_cast<std::uint32_t>(number));
    }
  }
  out.u32(static_cast<std::uint32_t>(paths.size()));
  for (const HostPath& path : paths) {
    out.u32(static_cast<std::uint32_t>(path.in)).u32(static_cast<std::uint32_t>(path.out));
    std::string order;
    for (const std::int32_t number : path.order) order += static_cast<char>(number);
    out.text(order);
  }
  write_ways(ways, out);
}

std::optional<Seating> Seating::read(MessageReader& in) {
  Seating seating;
  const auto number = [&] { return static_cast<std::int32_t>(in.u32()); };
  const std::uint32_t places = in.u32();
  for (std::uint32_t i = 0; i < places && in.good(); ++i) {
    Place& place = seating.places.emplace_back();
    place.numa = number();
    place.island = number();
    place.rail = number();
  }
  const std::uint32_t paths = in.u32();
  if (paths > kMostPaths) return std::nullopt;
  for (std::uint32_t i = 0; i < paths && in.good(); ++i) {
    HostPath& path = seating.paths.emplace_back();
    path.in = number();
    path.out = number();
    for (const char rank : in.text()) path.order.push_back(static_cast<unsigned char>(rank));
  }
  std::optional<DeviceWays> ways = read_ways(in);
  if (!in.good() || !ways) return std::nullopt;
  seating.ways = *std::move(ways);
  return seating;
}

bool Seating::fits(std::size_t ranks) const {
  if (places.empty()) return paths.empty() && ways.gpu.empty();
  return places.size() == ranks && ways.fits(ranks) &&
         std::ranges::all_of(
             paths, [&](const HostPath& path) { return is_permutation(path.order, ranks); });
}

Seating seat_host(const std::vector<Card>& cards, std::span<const Rank> ranks, bool alone,
                  bool described) {
  const auto card = [&](Rank rank) -> const Card& { return cards[static_cast<std::size_t>(rank)]; };
  const bool named =
      std::ranges::any_of(ranks, [&](Rank rank) { return !card(rank).device.empty(); });
  if (!named && !described) return {};
  const Result<Topology>& machine = own_machine();
  if (!machine.ok()) {  // this rank named no device, and need not have looked
    log(LogLevel::warn,
        "the ranks of this host are placed by NUMA node only: " + machine.status().text());
    return {};
  }
  const NodeId host = machine->all(NodeKind::host).front();
  std::vector<RankUnit> units;
  std::vector<NodeId> gpus;
  for (const Rank rank : ranks) {
    RankUnit& unit = units.emplace_back();
    unit.cpus = processors_of(card(rank).cpus);
    if (!card(rank).device.empty()) {
      const Result<NodeId> gpu = find_gpu(*machine, host, card(rank).device);
      if (gpu.ok()) unit.gpu = *gpu;
      if (!gpu.ok())
        log(LogLevel::warn,
            "rank " + std::to_string(rank) + " is placed by its cores: " + gpu.status().text());
    }
    gpus.push_back(unit.gpu);
  }
  Seating seating;
  seating.places = seat_ranks(*machine, host, units, gpu_islands(*machine)).places;
  for (Place& place : seating.places) place.host = 0;
  // Of the usual model, as rank 0's own may not be known here; it has the same links.
  seating.ways = device_ways(*machine, gpus, default_cost_model()->constants.link);
  if (all_differ(gpus) && gpus.size() <= kMostOnPath) {
    SearchBudget budget;
    seating.paths = host_paths(*machine, gpus, alone, budget);
    seating.paths.resize(std::min(seating.paths.size(), alone ? 1 : kMostPaths));
  }
  return seating;
}

std::vector<Rank> firsts_of_hosts(const std::vector<Reach>& reaches) {
  std::vector<Rank> firsts;
  for (const Reach& reach : reaches) firsts.push_back(reach.host);
  return firsts;
}

std::vector<Rank> firsts_of_gpus(const std::vector<Card>& cards) {
  std::vector<Rank> firsts;
  std::map<std::string_view, Rank> first_of;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const auto rank = static_cast<Rank>(r);
    const std::string& domain = cards[r].ipc_domain;
    firsts.push_back(domain.empty() ? rank : first_of.try_emplace(domain, rank).first->second);
  }
  return firsts;
}

Layout layout_of(const std::vector<Card>& cards, const std::vector<Rank>& firsts,
                 const std::vector<Seating>& seatings, Rank rank) {
  std::vector<Place> places(cards.size());
  const std::vector<std::vector<Rank>> hosts = ranks_by_host(firsts);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const Rank each : hosts[host]) {
      const auto at = static_cast<std::size_t>(each);
      places[at] = {.host = static_cast<std::int64_t>(host), .numa = cards[at].numa};
    }
  }
  std::vector<std::vector<HostPath>> paths;
  std::vector<Rank> misfits;
  for (const std::vector<Rank>& ranks : hosts) {
    const Seating& seating = seatings[static_cast<std::size_t>(ranks.front())];
    if (!seating.fits(ranks.size())) {
      misfits.push_back(ranks.front());
      paths.emplace_back();
      continue;
    }
    for (std::size_t i = 0; i < seating.places.size(); ++i) {
      Place& place = places[static_cast<std::size_t>(ranks[i])];
      const std::int64_t host = place.host;
      place = seating.places[i];
      place.host = host;
    }
    paths.push_back(seating.paths);
  }
  if (!misfits.empty() && rank == 0) {
    log(LogLevel::warn,
        "the ranks on the hosts of " + ranks_text(misfits) +
            " are placed by NUMA node only: not every two of them share memory, so one of them "
            "could not place them all");
  }
  return make_layout(places, paths);
}

std::vector<DeviceWays> ways_by_host(const std::vector<Rank>& firsts,
                                     const std::vector<Seating>& seatings) {
  std::vector<DeviceWays> ways;
  for (const std::vector<Rank>& ranks : ranks_by_host(firsts)) {
    const Seating& seating = seatings[static_cast<std::size_t>(ranks.front())];
    ways.push_back(seating.fits(ranks.size()) ? seating.ways : DeviceWays{});
  }
  return ways;
}

}  // namespace coll
