// SPDX-License-Identifier: Apache-2.0
// Trees of hosts, chains inside of them.
#include "topology/rings/tree_search.hpp"

#include "topology/rings/host_ring.hpp"

namespace coll {
namespace {

/// The parent of host `host` of `hosts` in a binary tree whose inner hosts have odd numbers: the
/// lowest bit that is set becomes the next one. Host 0, with one child, is the root.
int parent_in_tree(int host, int hosts) {
  if (host == 0) return -1;
  const int bit = host & -host;
  const int up = (host ^ bit) | bit << 1;
  return up < hosts ? up : host ^ bit;
}

/// The same with the numbers mirrored, or, where that would keep odd ones odd, moved by one.
int parent_in_second_tree(int host, int hosts) {
  const bool mirror = hosts % 2 == 0;
  const int as = mirror ? hosts - 1 - host : (host + hosts - 1) % hosts;
  const int parent = parent_in_tree(as, hosts);
  if (parent < 0) return -1;
  return mirror ? hosts - 1 - parent : (parent + 1) % hosts;
}

void hang(Tree& tree, std::span<const int> chain, int parent) {
  for (const int member : chain) {
    tree[static_cast<std::size_t>(member)] = parent;
    parent = member;
  }
}

}  // namespace

std::vector<Tree> balanced_trees(const Topology& topology, std::span<const NodeId> gpus) {
  std::vector<Tree> trees;
  if (gpus.empty()) return trees;
  const std::vector<NicRing> rings = nic_rings(topology, gpus);
  const int hosts = static_cast<int>(rings[0].hosts.size());
  if (hosts == 1) {
    for (const std::vector<int>& order : ring_orders(topology, gpus))
      hang(trees.emplace_back(gpus.size()), order, -1);
    return trees;
  }
  for (const NicRing& ring : rings) {
    std::vector<std::span<const int>> chains;
    std::size_t first = 0;
    for (const HostRing& host : ring.hosts) {
      chains.push_back(std::span(ring.order).subspan(first, host.gpus.size()));
      first += host.gpus.size();
    }
    for (const auto parent_of : {parent_in_tree, parent_in_second_tree}) {
      Tree& tree = trees.emplace_back(gpus.size());
      for (int host = 0; host < hosts; ++host) {
        const int parent = parent_of(host, hosts);
        hang(tree, chains[static_cast<std::size_t>(host)],
             parent < 0 ? -1 : chains[static_cast<std::size_t>(parent)].front());
      }
    }
  }
  return trees;
}

}  // namespace coll
