// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that a hierarchy is made of.
#include "collectives/hierarchical/rank_groups.hpp"

#include <algorithm>
#include <cstddef>

namespace coll {
namespace {

/// Numbers count up from 0, by the first rank of each.
Rank groups_in(const std::vector<std::int32_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + 1;
}

}  // namespace

std::optional<Layout> islands_as_hosts(const Layout& layout) {
  if (layout.hosts() != 1) return std::nullopt;
  const bool linked = groups_in(layout.island) < layout.ranks();
  const std::vector<std::int32_t>& group = linked ? layout.island : layout.numa;
  const Rank groups = groups_in(group);
  if (groups_in(layout.island) < 2 || groups < 2 || groups == layout.ranks()) return std::nullopt;
  Layout found = layout;
  found.host = group;
  found.members.assign(static_cast<std::size_t>(groups), {});
  for (const Rank rank : layout.members[0]) {
    found.members[static_cast<std::size_t>(group[static_cast<std::size_t>(rank)])].push_back(rank);
  }
  return found;
}

}  // namespace coll
