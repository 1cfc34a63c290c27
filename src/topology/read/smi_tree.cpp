// SPDX-License-Identifier: Apache-2.0
// From a matrix of distances to a machine.
#include "topology/read/smi_tree.hpp"

#include <algorithm>
#include <numeric>

#include "topology/reader_text.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

/// NVLinks of a GPU of any generation up to Blackwell (NVIDIA's data sheets: 4, 6, 12, 18, 18).
constexpr int kMostLinks = 18;

/// Both halves of a matrix must agree; a half that is missing is taken from the other one.
void make_symmetric(SmiMatrix& matrix, Topology& topology) {
  const std::size_t width = matrix.devices.size();
  for (std::size_t a = 0; a < width; ++a)
    for (std::size_t b = a + 1; b < width; ++b) {
      SmiCell& here = matrix.cells[a * width + b];
      SmiCell& there = matrix.cells[b * width + a];
      const auto known = [](const SmiCell& cell) {
        return cell.distance != Distance::unknown && cell.distance != Distance::self;
      };
      if (!known(here)) here = known(there) ? there : SmiCell{};
      if (!known(there)) there = here;
      if (here.distance == there.distance && here.links == there.links) continue;
      const bool farther = here.distance > there.distance ||
                           (here.distance == there.distance && here.links < there.links);
      const SmiCell worse = farther ? here : there;
      topology.warn("the matrix says two things of " + matrix.devices[a].name + " and " +
                    matrix.devices[b].name + ": the farther one is assumed");
      here = there = worse;
    }
}

class TreeBuilder {
 public:
  TreeBuilder(const SmiMatrix& matrix, Topology& topology)
      : matrix_(matrix), topology_(topology), width_(matrix.devices.size()), nodes_(width_) {}

  void build() {
    add_host();
    std::vector<std::size_t> everybody(width_);
    std::iota(everybody.begin(), everybody.end(), std::size_t{0});
    for (const auto& near : clusters(everybody, Distance::node)) {
      CpuSet numa;
      for (const std::size_t each : near) numa |= matrix_.devices[each].numa;
      for (const auto& bridge : clusters(near, Distance::phb)) {
        const NodeId root = add(NodeKind::host_bridge, 0);
        for (const auto& switches : clusters(bridge, Distance::pxb)) {
          const auto groups = clusters(switches, Distance::pix);
          const NodeId top = groups.size() > 1 ? add(NodeKind::pci_switch, root) : root;
          for (const auto& group : groups) {
            const bool behind = group.size() > 1 || groups.size() > 1;
            const NodeId parent = behind ? add(NodeKind::pci_switch, top) : root;
            for (const std::size_t device : group) add_device(device, parent, numa);
          }
        }
      }
    }
    add_links();
    tell_the_rest();
  }

 private:
  [[nodiscard]] const SmiCell& cell(std::size_t a, std::size_t b) const {
    return matrix_.cells[a * width_ + b];
  }

  /// `members` in groups: each is at most `distance` away from another of its group.
  std::vector<std::vector<std::size_t>> clusters(const std::vector<std::size_t>& members,
                                                 Distance distance) const {
    std::vector<std::vector<std::size_t>> groups;
    std::vector<bool> placed(width_);
    for (const std::size_t first : members) {
      if (placed[first]) continue;
      std::vector<std::size_t> group{first};
      placed[first] = true;
      for (std::size_t at = 0; at < group.size(); ++at)
        for (const std::size_t other : members) {
          const Distance far = cell(group[at], other).distance;
          if (placed[other] || far < Distance::pix || far > distance) continue;
          placed[other] = true;
          group.push_back(other);
        }
      std::sort(group.begin(), group.end());
      groups.push_back(std::move(group));
    }
    return groups;
  }

  NodeId add(NodeKind kind, NodeId parent) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    return topology_.add(std::move(node));
  }

  void add_host() {
    topology_.add({});
    std::map<std::int32_t, Node> numa;
    for (const SmiDevice& device : matrix_.devices) {
      topology_.nodes[0].cpus |= device.cpus;
      for (const std::int32_t each : device.numa.numbers()) {
        numa[each].kind = NodeKind::numa;
        if (device.numa.count() == 1) numa[each].cpus |= device.cpus;
      }
      for (const std::int32_t each : device.own_numa.numbers()) {
        numa[each].kind = NodeKind::numa;
        numa[each].subtype = "GPUMemory";
      }
    }
    for (auto& [index, node] : numa) {
      node.parent = 0;
      node.index = index;
      topology_.add(node);
    }
  }

  void add_device(std::size_t which, NodeId parent, const CpuSet& numa_of_group) {
    const SmiDevice& device = matrix_.devices[which];
    Node node;
    node.parent = parent;
    node.name = device.name;
    node.model = device.model;
    node.cpus = device.cpus;
    if (device.name.starts_with("GPU")) {
      node.kind = NodeKind::gpu;
      node.index = number<std::int32_t>(device.name.substr(3)).value_or(-1);
      node.numa = device.numa.numbers();  // its own word, or unknown: never a neighbour's
      if (!device.own_numa.empty()) node.info.emplace_back("own_numa", device.own_numa.list());
    } else {
      node.kind = NodeKind::nic;
      node.numa = device.numa.empty() ? numa_of_group.numbers() : device.numa.numbers();
      node.ports.push_back({device.alias.empty() ? device.name : device.alias, 0, -1, 0});
      if (!device.alias.empty()) node.aliases.push_back(device.alias);
    }
    nodes_[which] = topology_.add(std::move(node));
  }

  void add_links() {
    int most = 0, widest = 0;
    for (std::size_t a = 0; a < width_; ++a) {
      int sum = 0;
      for (std::size_t b = 0; b < width_; ++b) {
        sum += cell(a, b).links;
        widest = std::max(widest, cell(a, b).links);
      }
      most = std::max(most, sum);
    }
    NodeId fabric = kNoNode;
    if (most > kMostLinks) {  // more than a GPU has: they are the same ones, through switches
      fabric = add(NodeKind::link_switch, 0);
      topology_.nodes.back().name = "NVSwitch";
    }
    std::vector<Link> links;
    for (std::size_t a = 0; a < width_; ++a) {
      int own = 0;
      for (std::size_t b = 0; b < width_; ++b) {
        own = std::max(own, cell(a, b).links);
        if (fabric == kNoNode && a < b && cell(a, b).links > 0)
          links.push_back({LinkKind::nvlink, nodes_[a], nodes_[b], cell(a, b).links, 0});
      }
      if (fabric != kNoNode && own > 0)
        links.push_back({LinkKind::nvlink, nodes_[a], fabric, own, 0});
    }
    topology_.connect_all(links);
  }

  void tell_the_rest() {
    int against = 0, unknown = 0;
    std::vector<ToldDistance> told;  // at last: it would count for paths
    for (std::size_t a = 0; a < width_; ++a)
      for (std::size_t b = a + 1; b < width_; ++b) {
        const Distance said = cell(a, b).distance;
        if (said == Distance::unknown) ++unknown;
        if (said < Distance::pix || said == Distance::unknown) continue;
        if (pci_path_between(topology_, nodes_[a], nodes_[b]).distance == said) continue;
        ++against;
        told.push_back({nodes_[a], nodes_[b], said});
      }
    topology_.tell_all(told);
    if (against > 0)
      topology_.warn(
          std::to_string(against) +
          " distances do not follow from a tree of switches and the NUMA affinities: kept as "
          "the matrix says");
    if (unknown > 0)
      topology_.warn(std::to_string(unknown) +
                     " pairs are not in the matrix: their distance follows "
                     "from the others");
  }

  const SmiMatrix& matrix_;
  Topology& topology_;
  std::size_t width_;
  std::vector<NodeId> nodes_;
};

}  // namespace

void build_smi_tree(SmiMatrix& matrix, Topology& topology) {
  make_symmetric(matrix, topology);
  TreeBuilder(matrix, topology).build();
}

}  // namespace coll
