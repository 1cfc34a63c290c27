// SPDX-License-Identifier: Apache-2.0
// Groups ranks by host, socket, island and rail.
#include "topology/layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>

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
  return {same, same, same, same, {order}, {order}, order};
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
  layout.line = ring;
  return layout;
}

std::vector<std::vector<std::size_t>> joined_paths(
    std::span<const std::vector<std::pair<std::int32_t, std::int32_t>>> ends) {
  std::size_t fewest = ends.empty() ? 0 : ends[0].size();
  for (const auto& host : ends) fewest = std::min(fewest, host.size());
  std::vector<std::vector<std::size_t>> rings(fewest);
  std::vector<std::size_t> at(fewest);  // the path of each ring in the host at hand
  std::iota(at.begin(), at.end(), 0);
  for (const auto& host : ends) {
    for (std::size_t ring = 0; ring < fewest; ++ring) rings[ring].push_back(at[ring]);
    std::vector<std::size_t> next;
    for (const std::size_t path : at) {
      std::size_t to = 0;
      while (to < fewest && host[to].first != host[path].second) ++to;
      if (to == fewest || std::ranges::find(next, to) != next.end()) break;
      next.push_back(to);
    }
    if (next.size() == fewest) at = std::move(next);
  }
  return rings;
}

Layout make_layout(std::span<const Place> places, std::span<const std::vector<HostPath>> paths) {
  Layout layout = make_layout(places);
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> ends;
  for (const std::vector<HostPath>& host : paths) {
    auto& of = ends.emplace_back();
    for (const HostPath& path : host) of.emplace_back(path.in, path.out);
  }
  const auto joined = joined_paths(ends);
  if (joined.empty()) return layout;
  layout.rings.clear();
  for (const std::vector<std::size_t>& by_host : joined) {
    std::vector<Rank>& ring = layout.rings.emplace_back();
    for (std::size_t host = 0; host < by_host.size(); ++host) {
      std::vector<Rank> ranks = layout.members[host];
      std::ranges::sort(ranks);
      for (const std::int32_t number : paths[host][by_host[host]].order) {
        ring.push_back(ranks[static_cast<std::size_t>(number)]);
      }
    }
  }
  if (layout.rings.size() == 1) layout.line = layout.rings[0];
  return layout;
}

std::string to_text(const Layout& layout, Rank rank) {
  const auto groups = [](const std::vector<std::int32_t>& numbers) {
    return *std::ranges::max_element(numbers) + 1;
  };
  const bool in_order = layout.rings.size() == 1 && std::ranges::is_sorted(layout.rings[0]);
  const bool islands = groups(layout.island) > layout.hosts(), rails = groups(layout.rail) > 1;
  if (!islands && !rails && in_order) return {};
  const auto at = static_cast<std::size_t>(rank);
  std::string text = "place of rank " + std::to_string(rank) + ": host " +
                     std::to_string(layout.host[at]) + ", NUMA node " +
                     std::to_string(layout.numa[at]);
  if (islands) text += ", island " + std::to_string(layout.island[at]);
  if (rails) text += ", rail " + std::to_string(layout.rail[at]);
  text += "\norders:";
  constexpr std::size_t kShown = 64;  // ranks of a ring
  for (const std::vector<Rank>& ring : layout.rings) {
    for (std::size_t i = 0; i < std::min(kShown, ring.size()); ++i) {
      text.append(" ").append(std::to_string(ring[i]));
    }
    text += ring.size() > kShown ? " …;" : ";";
  }
  text.back() = '\n';
  return text;
}

}  // namespace coll
