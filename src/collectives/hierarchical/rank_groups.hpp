// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that a hierarchy treats as hosts.
#pragma once
#include <optional>

#include "topology/layout.hpp"

namespace coll {

/// For one host: a layout in which each island of the host is a host. GPUs of an island reach each
/// other over links; between islands there is only a slower way. If no GPU has a link, the NUMA
/// nodes are the islands. Nothing for several hosts, where the hosts are the hierarchy; nothing if
/// there is only one group, or if each group is a single rank.
std::optional<Layout> islands_as_hosts(const Layout& layout);

/// Calls use(layout) with the layout whose hosts a hierarchy uses: islands_as_hosts, else `layout`.
template <class Use>
auto on_groups(const Layout& layout, Use use) {
  const std::optional<Layout> islands = islands_as_hosts(layout);
  return use(islands ? *islands : layout);
}

}  // namespace coll
