// SPDX-License-Identifier: Apache-2.0
// What rings that run at once take of each link.
#include <map>

#include "topology/rings/host_ring.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

/// Parts of the machine in one direction, and how many rings use each.
class SharedParts {
 public:
  explicit SharedParts(const Topology& topology) : topology_(topology) {}

  void through_pci(NodeId a, NodeId b) {
    const PciWay way = pci_way(topology_, a, b);
    for (const NodeId part : way.up) use(part, kNoNode, topology_[part].pci.gbytes_per_s);
    const NodeId from = topology_.above(a, NodeKind::package);
    const NodeId to = topology_.above(b, NodeKind::package);
    if (from != to && from != kNoNode && to != kNoNode) use(from, to, kBetweenPackages);
    for (const NodeId part : way.down) use(kNoNode, part, topology_[part].pci.gbytes_per_s);
  }

  void hop(NodeId a, NodeId b) {
    const Path path = link_path_between(topology_, a, b);
    if (path.distance != Distance::link) return through_pci(a, b);
    for (const Link& out : topology_.links_from(a)) {
      if (out.to == b) return use(a, b, path.gbytes_per_s);
      if (topology_[out.to].kind != NodeKind::link_switch) continue;
      for (const Link& in : topology_.links_from(out.to)) {
        if (in.to != b) continue;
        use(a, out.to, out.count * out.gbytes_per_s);
        use(out.to, b, in.count * in.gbytes_per_s);
      }
    }
  }

  void leave(NodeId gpu, NodeId nic) {
    through_pci(gpu, nic);
    use(nic, nic, port_gbytes_per_s(topology_[nic]));
  }
  void enter(NodeId nic, NodeId gpu) { through_pci(nic, gpu); }

  /// Per ring; 0: no width is known.
  [[nodiscard]] double width() const {
    double least = 0;
    for (const auto& [part, each] : parts_) narrow(least, each.gbytes_per_s / each.rings);
    return least;
  }

 private:
  struct Part {
    double gbytes_per_s = 0;
    int rings = 0;
  };
  void use(NodeId from, NodeId to, double gbytes_per_s) {
    Part& part = parts_[{from, to}];
    part.gbytes_per_s = gbytes_per_s;
    ++part.rings;
  }

  const Topology& topology_;
  std::map<std::pair<NodeId, NodeId>, Part> parts_;
};

}  // namespace

double rings_gbytes_per_s(const Topology& topology, std::span<const NicRing> rings) {
  SharedParts shared(topology);
  double width = 0;
  for (const NicRing& ring : rings) {
    narrow(width, ring.gbytes_per_s);  // also what lies between its hosts
    for (const HostRing& part : ring.hosts) {
      for (std::size_t at = 0; at + 1 < part.gpus.size(); ++at)
        shared.hop(part.gpus[at], part.gpus[at + 1]);
      if (part.nic == kNoNode) continue;
      shared.leave(part.gpus.back(), part.out);
      shared.enter(part.nic, part.gpus.front());
    }
  }
  narrow(width, shared.width());
  return width * static_cast<double>(rings.size());
}

}  // namespace coll
