// SPDX-License-Identifier: Apache-2.0
// Groups ranks by host, socket, island and rail.
#include "topology/layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace coll {
namespace {

/// Numbers keys by their first appearance.
template <class Key>
class Numbers {
 public:
  std::int32_t of(const Key& key) {
    return numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, std::int32_t> numbers_;
};

}  // namespace

Layout Layout::flat(Rank ranks) {
  const std::vector<std::int32_t> same(static_cast<std::size_t>(ranks), 0);
  std::vector<Rank> order(same.size());
  std::iota(order.begin(), order.end(), 0);
  return {same, same, same, same, {order}, {order}};
}

Layout make_layout(std::span<const Place> places) {
  Layout layout;
  Numbers<std::int64_t> hosts;
  Numbers<std::int32_t> rails;
  Numbers<std::pair<std::int64_t, std::int32_t>> numa, islands;
  for (const Place& place : places) {
    const auto rank = static_cast<Rank>(layout.host.size());
    layout.host.push_back(hosts.of(place.host));
    layout.numa.push_back(numa.of({place.host, place.numa}));
    layout.island.push_back(islands.of({place.host, place.island}));
    layout.rail.push_back(rails.of(place.rail));
    const auto host = static_cast<std::size_t>(layout.host.back());
    if (host == layout.members.size()) layout.members.emplace_back();
    layout.members[host].push_back(rank);
  }
  // Here by the machine's numbers, which count alike on all hosts.
  const auto order = [&](Rank rank) {
    const Place& place = places[static_cast<std::size_t>(rank)];
    return std::pair(place.rail, place.numa);
  };
  std::vector<Rank>& ring = layout.rings.emplace_back();
  for (std::vector<Rank>& members : layout.members) {
    std::ranges::stable_sort(members, {}, order);
    ring.insert(ring.end(), members.begin(), members.end());
  }
  return layout;
}

}  // namespace coll
