// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that a hierarchy is made of.
#pragma once
#include <optional>

#include "topology/layout.hpp"

namespace coll {

/// On one host, its islands as if each were a host: GPUs reach each other over links within them,
/// and by a slower way between them. Where no GPU has a link, the NUMA nodes. Nothing on several
/// hosts, whose hierarchy is that of hosts, and where there is one group, or one of each rank.
std::optional<Layout> islands_as_hosts(const Layout& layout);

/// Calls use(layout) with what a hierarchy takes for hosts.
template <class Use>
auto on_groups(const Layout& layout, Use use) {
  const std::optional<Layout> islands = islands_as_hosts(layout);
  return use(islands ? *islands : layout);
}

}  // namespace coll
