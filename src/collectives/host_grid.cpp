// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: the ranks as
// hosts times rails.
#include "collectives/host_grid.hpp"

#include <algorithm>
#include <utility>

namespace coll {
namespace {

Rank place_of(const std::vector<Rank>& members, Rank rank) {
  return static_cast<Rank>(std::find(members.begin(), members.end(), rank) - members.begin());
}

}  // namespace

HostGrid::HostGrid(const Layout& layout, Rank rails_wanted, Rank root, Rank rank)
    : hosts(layout.hosts()),
      rails(rails_wanted),
      ranks(layout.ranks()),
      host(layout.host[static_cast<std::size_t>(rank)]),
      root_host(layout.host[static_cast<std::size_t>(root)]),
      layout_(&layout),
      root_members_(layout.members_of(root_host)) {
  std::size_t smallest = layout.members[0].size(), largest = smallest;
  for (const std::vector<Rank>& each : layout.members) {
    smallest = std::min(smallest, each.size());
    largest = std::max(largest, each.size());
    even = even && each.size() == layout.members[0].size() &&
           each[0] == static_cast<Rank>((&each - layout.members.data()) *
                                        static_cast<std::ptrdiff_t>(each.size())) &&
           std::is_sorted(each.begin(), each.end()) &&
           each.back() == each.front() + static_cast<Rank>(each.size()) - 1;
  }
  if (rails == 0) rails = static_cast<Rank>(smallest);
  largest_pod = (static_cast<Rank>(largest) + rails - 1) / rails;

  const Rank at = place_of(root_members_, root);
  root_rail = at % rails;
  if (at != root_rail) {
    std::swap(root_members_[static_cast<std::size_t>(at)],
              root_members_[static_cast<std::size_t>(root_rail)]);
    even = false;
  }
  const Rank own = place_of(members(host), rank);
  rail = own % rails;
  turn = own / rails;
}

std::vector<Rank> HostGrid::pod() const {
  const std::vector<Rank>& all = members(host);
  std::vector<Rank> found;
  for (auto at = static_cast<std::size_t>(rail); at < all.size();
       at += static_cast<std::size_t>(rails)) {
    found.push_back(all[at]);
  }
  return found;
}

std::vector<Rank> HostGrid::row() const {
  const std::vector<Rank>& all = members(host);
  return {all.begin(), all.begin() + rails};
}

std::vector<Rank> HostGrid::line() const {
  std::vector<Rank> found;
  for (Rank each = 0; each < hosts; ++each) {
    found.push_back(members(each)[static_cast<std::size_t>(rail)]);
  }
  return found;
}

std::vector<Rank> HostGrid::rail_ranks(Rank of_rail) const {
  std::vector<Rank> found;
  for (Rank each = 0; each < hosts; ++each) {
    const std::vector<Rank>& all = members(each);
    for (auto at = static_cast<std::size_t>(of_rail); at < all.size();
         at += static_cast<std::size_t>(rails)) {
      found.push_back(all[at]);
    }
  }
  return found;
}

std::vector<std::uint32_t> HostGrid::rail_bounds(Rank of_rail) const {
  std::vector<std::uint32_t> bounds{0};
  for (Rank each = 0; each < hosts; ++each) {
    bounds.push_back(bounds.back() + static_cast<std::uint32_t>(pod_size(each, of_rail)));
  }
  return bounds;
}

}  // namespace coll
