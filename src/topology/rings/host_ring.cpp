// SPDX-License-Identifier: Apache-2.0
// Rings through one host, from its NIC and back.
#include "topology/rings/host_ring.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "topology/rail_nics.hpp"
#include "topology/rings/direct_pattern.hpp"
#include "topology/rings/ring_ends.hpp"
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
  HostSearch(const Topology& topology, std::span<const NodeId> gpus, std::span<const NodeId> nics)
      : topology_(topology),
        gpus_(gpus),
        nics_(nics),
        distances_(distance_table(topology, gpus)),
        direct_(link_table(topology, gpus)),
        left_(direct_),
        uniform_(is_uniform()),
        mesh_(direct_pattern(topology, gpus).pattern == DirectPattern::mesh) {
    std::vector<std::vector<int>> to_gpus;
    for (const NodeId nic : nics) {
      std::vector<int>& row = to_gpus.emplace_back();
      for (const NodeId gpu : gpus)
        row.push_back(static_cast<int>(pci_path_between(topology, nic, gpu).distance));
    }
    ends_ = ring_ends(to_gpus, size());
  }

  /// The ring over the `number`th NIC.
  HostRing over(std::size_t number, SearchBudget& budget) {
    const RingEnds ends = ends_[number];
    std::vector<int> order;
    if (mesh_ && size() % 2 == 0)
      order = zigzag(ends.first);
    else if (uniform_)
      order = in_turn(ends);
    else
      order = searched(ends, budget);
    HostRing ring = made(order);
    ring.nic = nics_[number];
    ring.out = nics_[at(ends.out)];
    for (const auto& [nic, gpu] :
         {std::pair(ring.nic, ring.gpus.front()), std::pair(ring.out, ring.gpus.back())}) {
      narrow(ring.gbytes_per_s, port_gbytes_per_s(topology_[nic]));
      narrow(ring.gbytes_per_s, pci_path_between(topology_, nic, gpu).gbytes_per_s);
    }
    return ring;
  }

  /// Without NICs, from GPU to GPU.
  HostRing alone(SearchBudget& budget) {
    if (uniform_) return made(in_turn({0, size() - 1}));
    return made(searched({}, budget));
  }

 private:
  static std::size_t at(int member) { return static_cast<std::size_t>(member); }
  [[nodiscard]] int size() const { return static_cast<int>(gpus_.size()); }

  HostRing made(const std::vector<int>& order) {
    HostRing ring;
    for (const int member : order) ring.gpus.push_back(gpus_[at(member)]);
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      --left_.at(order[i], order[i + 1]);
      narrow(ring.gbytes_per_s,
             path_between(topology_, ring.gpus[i], ring.gpus[i + 1]).gbytes_per_s);
    }
    return ring;
  }

  [[nodiscard]] int hop(int from, int to) const {
    const int hop_class = class_of(static_cast<Distance>(distances_.at(from, to)));
    const bool taken = direct_.at(from, to) > 0 && left_.at(from, to) <= 0;
    return hop_class == kFreeLink && taken ? kTakenLink : hop_class;
  }

  /// Through a fabric, and on plain PCI, one order is as good as another but for its ends.
  [[nodiscard]] bool is_uniform() const {
    for (int a = 0; a < size(); ++a)
      for (int b = 0; b < size(); ++b)
        if (a != b && (direct_.at(a, b) > 0 || distances_.at(a, b) != distances_.at(0, 1)))
          return false;
    return true;
  }

  /// By number from the first on, the last one kept for the end.
  [[nodiscard]] std::vector<int> in_turn(RingEnds ends) const {
    std::vector<int> order;
    for (int step = 0; step < size(); ++step)
      if (const int member = (ends.first + step) % size(); member != ends.last || size() == 1)
        order.push_back(member);
    if (size() > 1) order.push_back(ends.last);
    return order;
  }

  /// Where each pair has links of its own: paths that share none, for each GPU one that begins
  /// there and one that ends there (Williams 1949, "Experimental designs balanced for the
  /// estimation of residual effects of treatments"). They end at the first one's partner.
  std::vector<int> zigzag(int first) {
    if (partners_.empty()) pair_up();
    const int n = size();
    const int start =
        static_cast<int>(std::find(partners_.begin(), partners_.end(), first) - partners_.begin());
    std::vector<int> order;
    for (int step = 0; step < n; ++step) {
      const int far = (step + 1) / 2;
      order.push_back(partners_[at((start + (step % 2 == 1 ? far : n - far)) % n)]);
    }
    return order;
  }

  /// Near ones stand half the circle from each other.
  void pair_up() {
    const int n = size();
    partners_.assign(at(n), 0);
    std::vector<int> left(at(n));
    std::iota(left.begin(), left.end(), 0);
    for (int pair = 0; !left.empty(); ++pair) {
      const int one = left.front();
      left.erase(left.begin());
      const auto far = [&](int other) {
        return pci_path_between(topology_, gpus_[at(one)], gpus_[at(other)]).distance;
      };
      const auto other =
          std::min_element(left.begin(), left.end(), [&](int a, int b) { return far(a) < far(b); });
      partners_[at(pair)] = one;
      partners_[at(pair + n / 2)] = *other;
      left.erase(other);
    }
  }

  /// The best way through all members, between these two if any are given.
  [[nodiscard]] std::vector<int> searched(std::optional<RingEnds> ends,
                                          SearchBudget& budget) const {
    constexpr int kNever = 15;
    PairTable classes(size() + 1);
    for (int a = 0; a < size(); ++a) {
      classes.at(0, a + 1) = !ends || a == ends->first ? 0 : kNever;
      classes.at(a + 1, 0) = !ends || a == ends->last ? 0 : kNever;
      for (int b = 0; b < size(); ++b)
        if (a != b) classes.at(a + 1, b + 1) = hop(a, b);
    }
    const Ring ring = best_ring(classes, budget);
    std::vector<int> order;
    for (std::size_t i = 1; i < ring.size(); ++i) order.push_back(ring[i] - 1);
    if (!ends) return order;
    // A ring that is not exact may have them elsewhere.
    for (auto place : {order.begin(), order.end() - 1}) {
      const int end = place == order.begin() ? ends->first : ends->last;
      const auto found = std::find(order.begin(), order.end(), end);
      if (found > place) std::rotate(place, found, found + 1);
      if (found < place) std::rotate(found, found + 1, place + 1);
    }
    return order;
  }

  const Topology& topology_;
  std::span<const NodeId> gpus_, nics_;
  PairTable distances_, direct_, left_;  ///< `left_`: links that no ring has taken yet
  bool uniform_, mesh_;
  std::vector<RingEnds> ends_;
  std::vector<int> partners_;  ///< the members on a circle, partners opposite each other
};

}  // namespace

std::vector<HostRing> host_rings(const Topology& topology, std::span<const NodeId> gpus,
                                 SearchBudget& budget) {
  if (gpus.empty()) return {};
  std::vector<NodeId> nics = rail_nics(topology, gpus);
  if (gpus.size() > kMostSearched) {
    budget.spent = true;
    const NodeId nic = nics.empty() ? kNoNode : nics[0];
    return {{nic, nic, 0, {gpus.begin(), gpus.end()}}};
  }
  if (nics.size() > kMostNicRings) {
    nics.resize(kMostNicRings);
    budget.spent = true;
  }
  HostSearch search(topology, gpus, nics);
  std::vector<HostRing> rings;
  while (rings.size() < nics.size()) rings.push_back(search.over(rings.size(), budget));
  if (rings.empty()) rings.push_back(search.alone(budget));
  return rings;
}

}  // namespace coll
