// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: rings through one host, from its NIC and
// back.
#include "topology/host_ring.hpp"

#include <algorithm>

#include "topology/rail_nics.hpp"
#include "topology/ring_search.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

// Classes of hops, best first: a link that is free, one that another ring has, then through PCI.
constexpr int kFreeLink = 1;
constexpr int kTakenLink = 2;
int class_of(Distance distance) {
  return distance <= Distance::link ? kFreeLink : static_cast<int>(distance) + 1;
}

class HostSearch {
 public:
  HostSearch(const Topology& topology, std::span<const NodeId> gpus)
      : topology_(topology),
        gpus_(gpus),
        distances_(distance_table(topology, gpus)),
        direct_(link_table(topology, gpus)),
        left_(direct_) {}

  HostRing find(NodeId nic) {
    HostRing ring;
    ring.nic = nic;
    const std::vector<int> order = uniform() ? turned(nic) : searched(nic);
    for (const int member : order) ring.gpus.push_back(gpus_[at(member)]);
    if (nic != kNoNode) {
      narrow(ring.gbytes_per_s, port_gbytes_per_s(topology_[nic]));
      for (const NodeId end : {ring.gpus.front(), ring.gpus.back()})
        narrow(ring.gbytes_per_s, pci_path_between(topology_, nic, end).gbytes_per_s);
    }
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      --left_.at(order[i], order[i + 1]);
      narrow(ring.gbytes_per_s,
             path_between(topology_, ring.gpus[i], ring.gpus[i + 1]).gbytes_per_s);
    }
    return ring;
  }

 private:
  static std::size_t at(int member) { return static_cast<std::size_t>(member); }
  [[nodiscard]] int size() const { return static_cast<int>(gpus_.size()); }

  [[nodiscard]] int hop(int from, int to) const {
    const int hop_class = class_of(static_cast<Distance>(distances_.at(from, to)));
    const bool taken = direct_.at(from, to) > 0 && left_.at(from, to) <= 0;
    return hop_class == kFreeLink && taken ? kTakenLink : hop_class;
  }
  [[nodiscard]] int to_nic(NodeId nic, int member) const {
    return nic == kNoNode ? 0
                          : class_of(pci_path_between(topology_, nic, gpus_[at(member)]).distance);
  }

  /// Through a fabric, and on plain PCI, one order is as good as another but for its ends.
  [[nodiscard]] bool uniform() const {
    for (int a = 0; a < size(); ++a)
      for (int b = 0; b < size(); ++b)
        if (a != b && (direct_.at(a, b) > 0 || distances_.at(a, b) != distances_.at(0, 1)))
          return false;
    return true;
  }

  /// The members by number from the one nearest to the NIC on; the next nearest at the end, of
  /// equal ones the one that would be there anyway.
  [[nodiscard]] std::vector<int> turned(NodeId nic) const {
    int first = 0;
    for (int each = 1; each < size(); ++each)
      if (to_nic(nic, each) < to_nic(nic, first)) first = each;
    std::vector<int> order;
    for (int step = 0; step < size(); ++step) order.push_back((first + step) % size());
    auto last = order.end() - 1;
    for (auto each = order.begin() + 1; each < order.end(); ++each)
      if (to_nic(nic, *each) < to_nic(nic, *last)) last = each;
    std::rotate(last, last + 1, order.end());
    return order;
  }

  /// The best ring through the NIC and all members that leaves it to one of the nearest.
  [[nodiscard]] std::vector<int> searched(NodeId nic) const {
    constexpr int kNever = 15;
    PairTable classes(size() + 1);
    int nearest = kNever;
    for (int a = 0; a < size(); ++a) nearest = std::min(nearest, to_nic(nic, a));
    for (int a = 0; a < size(); ++a) {
      classes.at(a + 1, 0) = to_nic(nic, a);
      classes.at(0, a + 1) = to_nic(nic, a) == nearest ? 0 : kNever;
      for (int b = 0; b < size(); ++b)
        if (a != b) classes.at(a + 1, b + 1) = hop(a, b);
    }
    const Ring ring = best_ring(classes);
    std::vector<int> order;
    for (std::size_t i = 1; i < ring.size(); ++i) order.push_back(ring[i] - 1);
    return order;
  }

  const Topology& topology_;
  std::span<const NodeId> gpus_;
  PairTable distances_, direct_, left_;  ///< `left_`: links that no ring has taken yet
};

}  // namespace

std::vector<HostRing> host_rings(const Topology& topology, std::span<const NodeId> gpus) {
  if (gpus.empty()) return {};
  HostSearch search(topology, gpus);
  std::vector<HostRing> rings;
  for (const NodeId nic : rail_nics(topology, gpus)) rings.push_back(search.find(nic));
  if (rings.empty()) rings.push_back(search.find(kNoNode));
  return rings;
}

}  // namespace coll
