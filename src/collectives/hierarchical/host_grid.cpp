// SPDX-License-Identifier: Apache-2.0
// The ranks as hosts times rails.
#include "collectives/hierarchical/host_grid.hpp"

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
      host(layout.host[static_cast<std::size_t>(rank)]),
      layout_(&layout) {
  const std::size_t first = layout.members[0].size();
  std::size_t smallest = first, largest = first;
  Rank before = 0;
  for (const std::vector<Rank>& each : layout.members) {
    smallest = std::min(smallest, each.size());
    largest = std::max(largest, each.size());
    const auto ranks = static_cast<Rank>(each.size());
    even = even && each.size() == first && each.front() == before &&
           each.back() == before + ranks - 1 && std::is_sorted(each.begin(), each.end());
    before += ranks;
  }
  if (rails == 0) rails = static_cast<Rank>(smallest);
  largest_team = (static_cast<Rank>(largest) + rails - 1) / rails;

  const Rank own = place_of(members(host), rank);
  rail = own % rails;
  turn = own / rails;
  if (root == kNoRank) return;
  root_host = layout.host[static_cast<std::size_t>(root)];
  const Rank at = place_of(members(root_host), root);
  root_rail = at % rails;
  root_turn = at / rails;
  even = even && root_turn == 0;
}

Rank HostGrid::owner_of(Rank of_host, Rank of_rail) const {
  const bool root = of_host == root_host && of_rail == root_rail;
  return members(of_host)[static_cast<std::size_t>(of_rail + (root ? root_turn * rails : 0))];
}

std::vector<Rank> HostGrid::team() const {
  const std::vector<Rank>& all = members(host);
  std::vector<Rank> found;
  for (auto at = static_cast<std::size_t>(rail); at < all.size();
       at += static_cast<std::size_t>(rails)) {
    found.push_back(all[at]);
  }
  return found;
}

std::vector<Rank> HostGrid::row() const {
  std::vector<Rank> found;
  for (Rank each = 0; each < rails; ++each) found.push_back(owner_of(host, each));
  return found;
}

std::vector<Rank> HostGrid::line() const {
  std::vector<Rank> found;
  for (Rank each = 0; each < hosts; ++each) found.push_back(owner_of(each, rail));
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
    bounds.push_back(bounds.back() + static_cast<std::uint32_t>(team_size(each, of_rail)));
  }
  return bounds;
}

}  // namespace coll
