// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: clusters of equal
// hosts, of any number, by the traffic of one of them.
#include "planner/regular_cluster.hpp"

#include <algorithm>
#include <unordered_map>

#include "planner/planner.hpp"
#include "schedule/simulate.hpp"
#include "topology/topology_hash.hpp"

namespace coll {
namespace {

/// Steps that are worth simulating for one point of a curve, all ranks and passes together: some
/// seconds.
constexpr double kMostSteps = 1e7;

/// The links of the pair's first host, and for each link of the pair which of these it is.
struct HostLinks {
  std::vector<Network::Link> links;
  std::vector<std::uint32_t> of_pair;  ///< kNone: between switches
  std::vector<bool> of_target;         ///< belongs to the host that a message goes to
  static constexpr std::uint32_t kNone = UINT32_MAX;
};

HostLinks host_links(const Network& pair) {
  constexpr std::string_view kHosts[] = {" of host 0", " of host 1"};
  HostLinks found;
  std::unordered_map<std::string, std::uint32_t> by_name;
  for (const Network::Link& link : pair.links) {
    std::string name = link.name;
    bool target = false, of_host = false;
    for (const std::string_view host : kHosts) {
      for (std::size_t at; (at = name.find(host)) != std::string::npos;) {
        name.erase(at, host.size());
        target = host == kHosts[1];
        of_host = true;
      }
    }
    std::uint32_t index = HostLinks::kNone;
    if (of_host) {
      const auto [known, fresh] =
          by_name.emplace(name, static_cast<std::uint32_t>(found.links.size()));
      if (fresh) found.links.push_back({name, link.us_per_byte, link.message_us});
      index = known->second;
    }
    found.of_pair.push_back(index);
    found.of_target.push_back(target);
  }
  return found;
}

/// All hosts' links, or with `hosts` = 1 one that stands for all.
Network cluster_network(const RegularCluster& cluster, Rank hosts) {
  const Network& pair = *cluster.pair.network;
  const HostLinks of_host = host_links(pair);
  Network network = pair;
  network.links.clear();
  for (Rank host = 0; host < hosts; ++host) {
    network.links.insert(network.links.end(), of_host.links.begin(), of_host.links.end());
  }
  const auto each = static_cast<std::uint32_t>(of_host.links.size());
  network.route = [route = pair.route, of_host, each, hosts, g = cluster.per_host](Rank source,
                                                                                   Rank target) {
    const Rank from = source / g, to = target / g;
    Route of = route(source % g, from == to ? target % g : g + target % g);
    std::vector<std::uint32_t> links;
    for (const std::uint32_t link : of.links) {
      if (of_host.of_pair[link] == HostLinks::kNone) continue;
      const auto host = static_cast<std::uint32_t>((of_host.of_target[link] ? to : from) % hosts);
      links.push_back(host * each + of_host.of_pair[link]);
    }
    of.links = std::move(links);
    return of;
  };
  return network;
}

std::optional<Symmetry> symmetry_of(const std::function<Schedule(Rank)>& build, Rank ranks,
                                    Rank group) {
  for (const Symmetry::Kind kind : {Symmetry::Kind::shift, Symmetry::Kind::exclusive_or}) {
    const Symmetry symmetry{kind, group};
    if (looks_symmetric(build, ranks, symmetry)) return symmetry;
  }
  return std::nullopt;
}

}  // namespace

bool looks_symmetric(const std::function<Schedule(Rank)>& build, Rank ranks,
                     const Symmetry& symmetry) {
  if (!symmetry.fits(ranks)) return false;
  const Rank size = symmetry.size, groups = ranks / size;
  constexpr std::size_t kSteps = 256;
  for (const Rank by : {1, groups / 2, groups - 1}) {
    const auto moved = [&](Rank rank) {
      return rank == kNoRank ? rank : symmetry.moved(rank, by * size, ranks);
    };
    for (Rank rank = 0; rank < size; ++rank) {
      const Schedule own = build(rank), image = build(moved(rank));
      if (own.lanes.size() != image.lanes.size()) return false;
      for (std::size_t lane = 0; lane < own.lanes.size(); ++lane) {
        const Lane &a = own.lanes[lane], &b = image.lanes[lane];
        if (a.size() != b.size()) return false;
        const std::size_t stride = std::max<std::size_t>(1, a.size() / kSteps);
        for (std::size_t i = 0; i < a.size(); i += stride) {
          const Step x = a[i], y = b[i];
          if (moved(x.source) != y.source || moved(x.target) != y.target || x.count != y.count ||
              x.with.present() != y.with.present() || x.into.present() != y.into.present()) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

Result<RegularCluster> regular_cluster(const Topology& topology) {
  const std::vector<NodeId> hosts = topology.all(NodeKind::host);
  const auto gpus = [&](std::size_t host) { return topology.parts(hosts[host], NodeKind::gpu); };
  const std::vector<std::uint64_t> hashes = host_hashes(topology);
  if (hosts.size() < 2 || gpus(0).empty() || hashes[0] != hashes[1]) {
    return failed(Code::invalid_argument,
                  topology.source + " does not begin with two equal hosts that have GPUs",
                  "describe a cluster, or write host:2 before the parts of the host");
  }
  RegularCluster cluster;
  cluster.per_host = static_cast<Rank>(gpus(0).size());
  COLL_ASSIGN(const Placement placement, place_ranks(topology, 2 * cluster.per_host));
  cluster.pair = machine_world(topology, placement);
  return cluster;
}

World world_of(const RegularCluster& cluster, Rank hosts) {
  World world = cluster.pair;
  const Layout& pair = cluster.pair.layout;
  std::vector<Place> places;
  for (Rank host = 0; host < hosts; ++host) {
    for (Rank rank = 0; rank < cluster.per_host; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      places.push_back(
          {.host = host, .numa = pair.numa[at], .island = pair.island[at], .rail = pair.rail[at]});
    }
  }
  world.layout = make_layout(places);
  world.network = std::make_shared<const Network>(cluster_network(cluster, hosts));
  return world;
}

std::optional<Prediction> predict(const RegularCluster& cluster, Rank hosts,
                                  const Algorithm& algorithm, Collective collective, double bytes) {
  const World world = world_of(cluster, hosts);
  const Rank ranks = world.layout.ranks();
  const CollectiveSpec spec{collective, ranks, 0};
  if (!algorithm.supports(spec, world.layout)) return std::nullopt;
  const Plan plan =
      plan_with(world, spec, algorithm, {}, size_class(static_cast<std::uint64_t>(bytes)));
  const auto build = [&](Rank rank) { return algorithm.build(spec, world.layout, rank); };
  const Load load{.bytes = bytes,
                  .slice_bytes = static_cast<double>(plan.slice_bytes),
                  .message_chunks = plan.message_chunks,
                  .copies = plan.lanes,
                  .effort = 0};  // as few passes as show the rate
  const double passes = bytes * plan.cost.message_chunks / (load.slice_bytes * plan.cost.chunks);
  const double simulated_passes = std::clamp(passes, 1.0, 6.0 * load.copies);
  const auto simulated = [&](Rank count, Rank links_of,
                             const Symmetry& symmetry) -> std::optional<Prediction> {
    std::vector<Schedule> schedules;
    double steps = 0;
    for (Rank rank = 0; rank < count; ++rank) {
      schedules.push_back(build(rank));
      for (const Lane& lane : schedules.back().lanes) steps += static_cast<double>(lane.size());
      if (steps * simulated_passes > kMostSteps) return std::nullopt;
    }
    const Result<Simulated> result =
        simulate(schedules, cluster_network(cluster, links_of), load, {}, symmetry);
    if (!result.ok()) return std::nullopt;
    return Prediction{.us = result->us,
                      .each_us = result->us,
                      .bottleneck = result->bottleneck,
                      .busy = result->busy};
  };
  if (hosts > 1) {
    if (const auto symmetry = symmetry_of(build, ranks, cluster.per_host)) {
      return simulated(cluster.per_host, 1, *symmetry);
    }
  }
  return simulated(ranks, hosts, {});
}

}  // namespace coll
