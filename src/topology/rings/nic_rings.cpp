// SPDX-License-Identifier: Apache-2.0
// Joins the paths through each host to rings over all hosts.
#include <algorithm>
#include <map>
#include <numeric>

#include "topology/layout.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/rings/ring_search.hpp"
#include "topology/topology_hash.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

/// The members of a group in one host.
struct Members {
  std::vector<NodeId> gpus;
  std::vector<int> places;  ///< of each in the group
};

int position(const std::vector<NodeId>& nodes, NodeId id) {
  return id == kNoNode
             ? -1
             : static_cast<int>(std::find(nodes.begin(), nodes.end(), id) - nodes.begin());
}

/// The rings of hosts. Hosts of equal build with the same GPUs in the group have equal rings.
class EqualHosts {
 public:
  EqualHosts(const Topology& topology, SearchBudget& budget)
      : topology_(topology), budget_(budget) {
    const std::vector<std::uint64_t> hashes = host_hashes(topology);
    const std::vector<NodeId> hosts = topology.all(NodeKind::host);
    for (std::size_t at = 0; at < hosts.size(); ++at) hash_[hosts[at]] = hashes[at];
  }

  std::vector<HostRing> rings_of(NodeId host, const std::vector<NodeId>& members) {
    const std::vector<NodeId> gpus = topology_.parts(host, NodeKind::gpu),
                              nics = topology_.parts(host, NodeKind::nic);
    std::vector<int> chosen;
    for (const NodeId gpu : members) chosen.push_back(position(gpus, gpu));
    const auto [known, is_new] = known_.emplace(std::pair(hash_.at(host), chosen), Known{});
    Known& entry = known->second;
    if (is_new) {
      entry.rings = host_rings(topology_, members, budget_);
      for (const HostRing& ring : entry.rings) {
        entry.nics.emplace_back(position(nics, ring.nic), position(nics, ring.out));
        std::vector<int>& order = entry.orders.emplace_back();
        for (const NodeId gpu : ring.gpus) order.push_back(position(gpus, gpu));
      }
      return entry.rings;
    }
    std::vector<HostRing> rings = entry.rings;
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
      const auto nic = [&](int at) {
        return at < 0 ? kNoNode : nics[static_cast<std::size_t>(at)];
      };
      rings[ring].nic = nic(entry.nics[ring].first);
      rings[ring].out = nic(entry.nics[ring].second);
      for (std::size_t at = 0; at < rings[ring].gpus.size(); ++at)
        rings[ring].gpus[at] = gpus[static_cast<std::size_t>(entry.orders[ring][at])];
    }
    return rings;
  }

 private:
  struct Known {
    std::vector<HostRing> rings;
    std::vector<std::pair<int, int>> nics;  ///< in, out
    std::vector<std::vector<int>> orders;
  };
  const Topology& topology_;
  SearchBudget& budget_;
  std::map<NodeId, std::uint64_t> hash_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, Known> known_;
};

std::map<NodeId, Members> by_host(const Topology& topology, std::span<const NodeId> gpus) {
  std::map<NodeId, Members> hosts;
  for (std::size_t place = 0; place < gpus.size(); ++place) {
    Members& members = hosts[topology.above(gpus[place], NodeKind::host)];
    members.gpus.push_back(gpus[place]);
    members.places.push_back(static_cast<int>(place));
  }
  return hosts;
}

/// A GPU's place in the whole group.
int place_of(const HostGroup& host, std::span<const NodeId> gpus, NodeId gpu) {
  return *std::find_if(host.places.begin(), host.places.end(),
                       [&](int place) { return gpus[static_cast<std::size_t>(place)] == gpu; });
}

}  // namespace

std::vector<HostGroup> host_groups(const Topology& topology, std::span<const NodeId> gpus,
                                   SearchBudget& budget) {
  EqualHosts equal(topology, budget);
  std::vector<HostGroup> groups;
  for (auto& [host, members] : by_host(topology, gpus)) {
    std::vector<HostRing> rings = equal.rings_of(host, members.gpus);
    groups.push_back({host, std::move(members.places), std::move(rings)});
  }
  return groups;
}

std::vector<NicRing> nic_rings(const Topology& topology, std::span<const NodeId> gpus,
                               SearchBudget& budget) {
  const std::vector<HostGroup> groups = host_groups(topology, gpus, budget);
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> ends;
  for (const HostGroup& group : groups) {
    auto& of = ends.emplace_back();
    for (const HostRing& ring : group.rings) of.emplace_back(ring.nic, ring.out);
  }
  std::vector<NicRing> rings;
  for (const std::vector<std::size_t>& by_host : joined_paths(ends)) {
    NicRing& made = rings.emplace_back();
    for (std::size_t host = 0; host < groups.size(); ++host) {
      const HostRing& part = groups[host].rings[by_host[host]];
      narrow(made.gbytes_per_s, part.gbytes_per_s);
      for (const NodeId gpu : part.gpus) made.order.push_back(place_of(groups[host], gpus, gpu));
      made.hosts.push_back(part);
    }
    for (std::size_t from = 0; groups.size() > 1 && from < groups.size(); ++from) {
      const NodeId out = made.hosts[from].out, in = made.hosts[(from + 1) % groups.size()].nic;
      if (out != kNoNode && in != kNoNode)
        narrow(made.gbytes_per_s, network_between(topology, out, in));
    }
  }
  return rings;
}

std::vector<std::vector<int>> ring_orders(const Topology& topology, std::span<const NodeId> gpus) {
  std::vector<std::vector<int>> orders;
  const bool one_host = std::all_of(gpus.begin(), gpus.end(), [&](NodeId gpu) {
    return topology.above(gpu, NodeKind::host) == topology.above(gpus[0], NodeKind::host);
  });
  if (gpus.size() > kMostSearched && one_host) {
    std::iota(orders.emplace_back(gpus.size()).begin(), orders[0].end(), 0);
    return orders;
  }
  if (one_host)
    orders = pack_rings(link_table(topology, gpus)).rings;
  else
    for (NicRing& ring : nic_rings(topology, gpus)) orders.push_back(std::move(ring.order));
  if (orders.empty()) orders.push_back(best_ring(distance_table(topology, gpus)));
  return orders;
}

}  // namespace coll
