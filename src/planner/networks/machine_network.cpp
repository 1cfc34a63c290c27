// SPDX-License-Identifier: Apache-2.0
// The network between ranks on a described machine, link by link.
#include "planner/networks/machine_network.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "planner/networks/host_ways.hpp"
#include "planner/prediction.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

constexpr double us_per_byte(double gbytes_per_s) {
  return gbytes_per_s > 0 ? 1e-3 / gbytes_per_s : 0;
}

/// Numbers the links as routes come to need them. Kept by the network's routes.
class Fabric {
 public:
  Fabric(const Topology& topology, const Placement& placement, const CostConstants& costs)
      : topology_(topology), placement_(placement), costs_(costs), ways_(topology, costs.link) {
    for (const RingHop& hop : placement.ring_hops)
      ring_nics_[{hop.from, hop.to}].emplace_back(hop.out, hop.in);
  }

  Route route(Rank source, Rank target, Network& network) {
    const auto s = static_cast<std::size_t>(source), t = static_cast<std::size_t>(target);
    const NodeId a = placement_.node[s], b = placement_.node[t];
    const bool gpus = topology_[a].kind == NodeKind::gpu && topology_[b].kind == NodeKind::gpu;
    const bool apart = placement_.layout.host[s] != placement_.layout.host[t];
    if (!gpus) return between_processors(s, t, apart, network);
    Route route;
    const GpuCost& gpu = costs_.gpu;
    if (apart) {
      set(route, gpu.network_alpha_us, gpu.network_long_us);
      between_hosts(s, t, route, network);
    } else if (a == b) {
      set(route, gpu.link_alpha_us, 0);
      use({"memory of " + name(a), a, a}, costs_.link.within_gpu_gbytes_per_s, route, network);
    } else if (link_path_between(topology_, a, b).links > 0) {
      set(route, gpu.link_alpha_us, gpu.link_long_us);
      use(ways_.between_gpus(a, b), route, network);
    } else {
      set(route, gpu.pci_alpha_us, gpu.pci_long_us);
      use(ways_.through_pci(a, b), route, network);
    }
    return route;
  }

 private:
  /// A link: what it is called, and between which parts; from == to: of that part.
  struct Key {
    std::string name;
    NodeId from, to;
    bool operator<(const Key& other) const {
      return std::tie(from, to, name) < std::tie(other.from, other.to, other.name);
    }
  };

  void set(Route& route, double alpha_us, double long_us) const {
    route.alpha_us = alpha_us;
    route.long_us = long_us;
    route.inline_bytes = costs_.gpu.flagged_bytes;
  }

  [[nodiscard]] std::string name(NodeId id) const { return ways_.name(id); }

  void use(const Key& key, double gbytes_per_s, Route& route, Network& network,
           double message_us = 0) {
    if (gbytes_per_s <= 0) return;
    const auto [at, fresh] = links_.emplace(key, static_cast<std::uint32_t>(network.links.size()));
    if (fresh) network.links.push_back({key.name, us_per_byte(gbytes_per_s), message_us});
    route.links.push_back(at->second);
  }

  void use(const std::vector<HostLink>& way, Route& route, Network& network) {
    for (const HostLink& link : way)
      use({link.name, link.from, link.to}, link.gbytes_per_s, route, network);
  }

  /// The network of a host without a NIC.
  [[nodiscard]] double assumed_network() const {
    return costs_.link.nic_gbytes_per_s * costs_.link.network_yield;
  }

  [[nodiscard]] double port_rate(NodeId nic) const {
    const double rate = port_gbytes_per_s(topology_[nic]);
    return (rate > 0 ? rate : costs_.link.nic_gbytes_per_s) * costs_.link.network_yield;
  }

  /// Over the NICs of the ring that has this hop; else over those nearest to both.
  void between_hosts(std::size_t s, std::size_t t, Route& route, Network& network) {
    std::vector<std::pair<NodeId, NodeId>> nics{{placement_.nic[s], placement_.nic[t]}};
    if (const auto ring = ring_nics_.find({static_cast<Rank>(s), static_cast<Rank>(t)});
        ring != ring_nics_.end())
      nics = ring->second;
    std::vector<Route> out(nics.size()), over(nics.size()), in(nics.size());
    for (std::size_t i = 0; i < nics.size(); ++i) {
      leave(placement_.node[s], nics[i].first, out[i], network);
      cross(nics[i].first, nics[i].second, s + t, over[i], network);
      enter(nics[i].second, placement_.node[t], in[i], network);
    }
    for (const std::vector<Route>& side : {out, over, in}) side_by_side(side, route, network);
  }

  /// Several rings between the same two ranks: where their ways part they are as wide as all of
  /// them together.
  void side_by_side(const std::vector<Route>& ways, Route& route, Network& network) {
    const auto in_all = [&](std::uint32_t link) {
      return std::ranges::all_of(ways, [&](const Route& way) {
        return std::ranges::find(way.links, link) != way.links.end();
      });
    };
    std::string names;
    double sum = 0, message_us = 0;
    for (const Route& way : ways) {
      double least = 0;
      std::string narrowest;
      for (const std::uint32_t each : way.links) {
        const Network::Link& link = network.links[each];
        if (ways.size() == 1 || (in_all(each) && &way == &ways.front()))
          route.links.push_back(each);
        if (ways.size() == 1 || in_all(each)) continue;
        const double rate = 1e-3 / link.us_per_byte;
        if (least == 0 || rate < least) narrowest = link.name;
        narrow(least, rate);
        message_us = std::max(message_us, link.message_us);
      }
      sum += least;
      if (least > 0) names += (names.empty() ? "" : " beside ") + narrowest;
    }
    if (sum <= 0) return;
    use({names, kNoNode, kNoNode}, sum, route, network,
        message_us / static_cast<double>(ways.size()));
  }

  void leave(NodeId device, NodeId nic, Route& route, Network& network) {
    if (nic == kNoNode) {
      const NodeId host = topology_.above(device, NodeKind::host);
      use({"network of " + name(host) + ", out", host, kNoNode}, assumed_network(), route, network,
          costs_.link.nic_message_us);
      return;
    }
    use(ways_.through_pci(device, nic), route, network);
    use({name(nic) + ", out", nic, kNoNode}, port_rate(nic), route, network,
        costs_.link.nic_message_us);
  }

  void enter(NodeId nic, NodeId device, Route& route, Network& network) {
    if (nic == kNoNode) {
      const NodeId host = topology_.above(device, NodeKind::host);
      use({"network of " + name(host) + ", in", kNoNode, host}, assumed_network(), route, network);
      return;
    }
    use({name(nic) + ", in", kNoNode, nic}, port_rate(nic), route, network);
    use(ways_.through_pci(nic, device), route, network);
  }

  /// From switch to switch, over the links between them.
  void cross(NodeId from, NodeId to, std::size_t choice, Route& route, Network& network) {
    if (from == kNoNode || to == kNoNode) return;
    const std::vector<NodeId> way = shortest_way(from, to, choice);
    for (std::size_t at = 0; at + 1 < way.size(); ++at) {
      for (const Link& link : topology_.links_from(way[at])) {
        if (link.to != way[at + 1]) continue;
        use({name(link.from) + " to " + name(link.to), link.from, link.to},
            link.gbytes_per_s * link.count * costs_.link.network_yield, route, network);
        break;
      }
    }
  }

  /// The switches between two NICs: breadth first; of several ways on, `choice` picks.
  std::vector<NodeId> shortest_way(NodeId from, NodeId to, std::size_t choice) {
    std::unordered_map<NodeId, NodeId> before;
    std::deque<NodeId> next{to};
    before.emplace(to, kNoNode);
    while (!next.empty() && !before.contains(from)) {
      const NodeId at = next.front();
      next.pop_front();
      const auto links = topology_.links_from(at);
      for (std::size_t i = 0; i < links.size(); ++i) {
        const Link& link = links[(i + choice) % links.size()];
        const bool onward = topology_[link.to].kind == NodeKind::network_switch || link.to == from;
        if (link.kind == LinkKind::network && onward && before.emplace(link.to, at).second) {
          next.push_back(link.to);
        }
      }
    }
    std::vector<NodeId> way;
    if (!before.contains(from)) return way;
    for (NodeId at = before.at(from); at != to; at = before.at(at)) way.push_back(at);
    return way;
  }

  Route between_processors(std::size_t s, std::size_t t, bool apart, Network& network) {
    const PathCost& path = apart ? costs_.network : costs_.memory;
    Route route = route_over(path);
    if (apart) {
      const NodeId out = placement_.nic[s], in = placement_.nic[t];
      if (out == kNoNode || in == kNoNode) return route;
      use({name(out) + ", out", out, kNoNode}, port_rate(out), route, network);
      cross(out, in, s + t, route, network);
      use({name(in) + ", in", kNoNode, in}, port_rate(in), route, network);
    }
    return route;
  }

  const Topology& topology_;
  const Placement& placement_;
  const CostConstants& costs_;
  HostWays ways_;
  std::map<Key, std::uint32_t> links_;
  std::map<std::pair<Rank, Rank>, std::vector<std::pair<NodeId, NodeId>>> ring_nics_;
};

}  // namespace

Network machine_network(const Topology& topology, const Placement& placement,
                        const CostConstants& costs) {
  Network network;
  const bool on_gpus = topology[placement.node.front()].kind == NodeKind::gpu;
  network.threads = !on_gpus;
  const Rank ranks = placement.layout.ranks();
  if (!on_gpus) {
    std::map<NodeId, std::uint32_t> cores;
    for (const NodeId node : placement.node) {
      network.core.push_back(
          cores.emplace(node, static_cast<std::uint32_t>(cores.size())).first->second);
    }
    network.hand_over_us = costs.sharing.hand_over_us;
    if (placement.layout.hosts() == 1) network.staged_bytes = costs.copy.staged_bytes;
    network.step_us = costs.memory.step_us;
    network.copy_us_per_byte = costs.copy.us_per_byte;
  } else {
    network.step_us = costs.gpu.step_us;
    network.flagged_times = costs.gpu.flagged_times;
    network.copy_us_per_byte = us_per_byte(costs.link.within_gpu_gbytes_per_s);
  }
  Fabric fabric(topology, placement, costs);
  const auto routes = std::make_shared<std::unordered_map<std::uint64_t, Route>>();
  for (Rank source = 0; source < ranks; ++source) {
    for (Rank target = 0; target < ranks; ++target) {
      if (source == target) continue;
      routes->emplace(static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(target),
                      fabric.route(source, target, network));
    }
  }
  network.route = [routes](Rank source, Rank target) {
    return routes->at(static_cast<std::uint64_t>(source) << 32 |
                      static_cast<std::uint32_t>(target));
  };
  return network;
}

World machine_world(const Topology& topology, const Placement& placement,
                    std::shared_ptr<const CostModel> model) {
  World world;
  world.model = std::move(model);
  world.layout = placement.layout;
  world.network =
      std::make_shared<const Network>(machine_network(topology, placement, world.costs()));
  const bool on_gpus = topology[placement.node.front()].kind == NodeKind::gpu;
  if (on_gpus || placement.layout.hosts() > 1) world.shared_memory = false;
  if (on_gpus) {
    world.slot_bytes = world.passing_bytes =
        static_cast<std::uint32_t>(world.costs().gpu.slice_bytes);
    world.max_lanes = static_cast<std::uint32_t>(world.costs().gpu.most_lanes);
  }
  std::map<std::uint32_t, double> on;
  for (const std::uint32_t core : world.network->core) {
    world.view.ranks_per_core = std::max(world.view.ranks_per_core, ++on[core]);
  }
  return world;
}

}  // namespace coll
