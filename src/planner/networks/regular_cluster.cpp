// SPDX-License-Identifier: Apache-2.0
// Clusters of equal hosts, of any number, by the traffic of one of them.
#include "planner/networks/regular_cluster.hpp"

#include <algorithm>
#include <unordered_map>

#include "planner/planner.hpp"
#include "schedule/simulate/least_time.hpp"
#include "schedule/simulate/simulate.hpp"
#include "topology/topology_hash.hpp"

namespace coll {
namespace {

/// A host that stands for all may have chunks that are a little shorter than those of others, where
/// bytes do not come out even; so a prediction may be below what its schedules take at least.
constexpr double kUneven = 0.95;

/// The links of the pair's first host, and which of them each link of the pair is.
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

/// A call on `hosts` hosts, by any algorithm.
class ClusterCall {
 public:
  ClusterCall(const RegularCluster& cluster, Rank hosts, Collective collective, double bytes)
      : cluster_(cluster),
        hosts_(hosts),
        world_(world_of(cluster, hosts)),
        spec_{collective, world_.layout.ranks(), 0},
        bytes_(bytes) {}

  [[nodiscard]] bool can(const Algorithm& algorithm) const {
    return algorithm.serves(spec_, world_.layout);
  }
  [[nodiscard]] bool weighs(const Algorithm& algorithm) const {
    return algorithm.competes(spec_, world_.layout);
  }

  /// By the better of the plans that the planner compares, unless none takes less than `to_beat`;
  /// none if they are too many steps, either.
  [[nodiscard]] std::optional<Prediction> predict(
      const Algorithm& algorithm, double to_beat = std::numeric_limits<double>::infinity(),
      double most_steps = kMostSteps) const {
    const auto build = builder(algorithm);
    std::optional<Symmetry> symmetry;
    if (hosts_ > 1) symmetry = symmetry_of(build, spec_.ranks, cluster_.per_host);
    const Network network = cluster_network(cluster_, symmetry ? 1 : hosts_);
    const auto count = static_cast<std::size_t>(symmetry ? cluster_.per_host : spec_.ranks);
    std::vector<Schedule> schedules;
    double steps = 0;
    std::optional<Prediction> best;
    for (const auto& [least, plan] : plans(algorithm)) {
      if (least >= to_beat) break;
      const double most = most_steps / passes_simulated(plan);
      while (schedules.size() < count && steps <= most) {
        schedules.push_back(build(static_cast<Rank>(schedules.size())));
        for (const Lane& lane : schedules.back().lanes) steps += static_cast<double>(lane.size());
      }
      if (steps > most) continue;
      const Result<Simulated> result =
          simulate(schedules, network, load_of(plan), {}, symmetry.value_or(Symmetry{}));
      if (!result.ok() || result->us >= to_beat) continue;
      to_beat = result->us;
      best = {.us = result->us,
              .each_us = result->us,
              .bottleneck = result->bottleneck,
              .busy = result->busy};
    }
    return best;
  }

  /// No plan takes less.
  [[nodiscard]] double least_us(const Algorithm& algorithm) const {
    return plans(algorithm).front().first;
  }

 private:
  [[nodiscard]] std::function<Schedule(Rank)> builder(const Algorithm& algorithm) const {
    return [&](Rank rank) { return algorithm.build(spec_, world_.layout, rank); };
  }

  /// The plans that the planner compares, behind what each takes at least, the least first.
  [[nodiscard]] std::vector<std::pair<double, Plan>> plans(const Algorithm& algorithm) const {
    const Rank some[] = {0, spec_.ranks / 2, spec_.ranks - 1};
    std::vector<std::pair<double, Plan>> list;
    for (const Plan& plan :
         plans_with(world_, spec_, algorithm, {}, size_class(static_cast<std::uint64_t>(bytes_)))) {
      const double least = coll::least_us(builder(algorithm), some, *world_.network, load_of(plan));
      list.emplace_back(kUneven * least, plan);
    }
    std::ranges::stable_sort(list, {}, [](const auto& each) { return each.first; });
    return list;
  }

  [[nodiscard]] Load load_of(const Plan& plan) const {
    return {.bytes = bytes_,
            .slice_bytes = static_cast<double>(plan.slice_bytes),
            .message_chunks = plan.message_chunks,
            .copies = plan.lanes,
            .effort = 0};  // as few passes as show the rate
  }

  [[nodiscard]] double passes_simulated(const Plan& plan) const {
    const double each = static_cast<double>(plan.slice_bytes) * plan.cost.chunks;
    return std::clamp(bytes_ * plan.cost.message_chunks / each, 1.0, 6.0 * plan.lanes);
  }

  const RegularCluster& cluster_;
  Rank hosts_;
  World world_;
  CollectiveSpec spec_;
  double bytes_;
};

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

namespace {

/// The paths of rings through each host, where they are alike in both hosts of the pair; else none.
std::vector<HostPath> paths_of(const RegularCluster& cluster) {
  std::vector<HostPath> paths;
  for (const std::vector<Rank>& ring : cluster.pair.layout.rings) {
    HostPath& path = paths.emplace_back();
    path.in = path.out = static_cast<std::int32_t>(paths.size()) - 1;
    path.order.assign(ring.begin(), ring.begin() + cluster.per_host);
    const auto moved = [&](std::int32_t number) { return number + cluster.per_host; };
    if (!std::ranges::equal(path.order, std::span(ring).subspan(path.order.size()), {}, moved)) {
      return {};
    }
  }
  return paths;
}

}  // namespace

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
  const std::vector<HostPath> paths = paths_of(cluster);
  world.layout =
      make_layout(places, std::vector(static_cast<std::size_t>(hosts > 1 ? hosts : 0), paths));
  world.network = std::make_shared<const Network>(cluster_network(cluster, hosts));
  return world;
}

std::optional<Prediction> predict(const RegularCluster& cluster, Rank hosts,
                                  const Algorithm& algorithm, Collective collective, double bytes,
                                  double most_steps) {
  const ClusterCall call(cluster, hosts, collective, bytes);
  if (!call.can(algorithm)) return std::nullopt;
  return call.predict(algorithm, std::numeric_limits<double>::infinity(), most_steps);
}

double least_us(const RegularCluster& cluster, Rank hosts, const Algorithm& algorithm,
                Collective collective, double bytes) {
  return ClusterCall(cluster, hosts, collective, bytes).least_us(algorithm);
}

std::optional<Fastest> fastest(const RegularCluster& cluster, Rank hosts, Collective collective,
                               double bytes) {
  const ClusterCall call(cluster, hosts, collective, bytes);
  std::vector<std::pair<double, const Algorithm*>> list;
  for (const Algorithm& algorithm : algorithms()) {
    if (call.weighs(algorithm)) list.emplace_back(call.least_us(algorithm), &algorithm);
  }
  std::ranges::stable_sort(list, {}, [](const auto& each) { return each.first; });
  std::optional<Fastest> best;
  int simulated = 0;
  for (const auto& [least, algorithm] : list) {
    const double to_beat = best ? best->prediction.us : std::numeric_limits<double>::infinity();
    if (least >= to_beat) break;
    ++simulated;
    if (const auto prediction = call.predict(*algorithm, to_beat)) {
      best = {algorithm, *prediction, simulated};
    }
    if (best) best->simulated = simulated;
  }
  return best;
}

}  // namespace coll
