// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: the ranks as
// hosts times rails, for hierarchical algorithms.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/layout.hpp"

namespace coll {

/// Hosts times rails, as seen by one rank. On each rail every host has a *pod*, one or more of its
/// ranks; the first is its *owner*. Owners of a host are its *row*, owners of a rail that rail's
/// *line*. Equal hosts have pods of one rank and no more to them; where hosts differ, there are as
/// many rails as the smallest one has ranks, and members of larger ones are dealt out to the pods.
class HostGrid {
 public:
  /// `rails`: 0 for as many as the smallest host has ranks. `root` owns its pod.
  HostGrid(const Layout& layout, Rank rails, Rank root, Rank rank);

  Rank hosts = 0, rails = 0;
  Rank ranks = 0;
  Rank host = 0;  ///< of the rank
  Rank rail = 0;  ///< of the rank
  Rank turn = 0;  ///< of the rank in its pod; 0: it is the owner
  Rank root_host = 0, root_rail = 0;
  Rank largest_pod = 1;
  bool even = true;  ///< hosts are equal, and their ranks consecutive

  [[nodiscard]] bool owns() const { return turn == 0; }
  [[nodiscard]] const std::vector<Rank>& members(Rank of_host) const {
    return of_host == root_host ? root_members_ : layout_->members_of(of_host);
  }
  [[nodiscard]] Rank place() const { return rail + turn * rails; }  ///< in members(host)
  [[nodiscard]] Rank pod_size(Rank of_host, Rank of_rail) const {
    return (static_cast<Rank>(members(of_host).size()) - of_rail + rails - 1) / rails;
  }
  [[nodiscard]] std::vector<Rank> pod() const;   ///< the rank's own
  [[nodiscard]] std::vector<Rank> row() const;   ///< of the rank's host
  [[nodiscard]] std::vector<Rank> line() const;  ///< of the rank's rail

  /// The ranks of a rail, pod by pod: bounds[h] is the first one of host h among them.
  [[nodiscard]] std::vector<Rank> rail_ranks(Rank of_rail) const;
  [[nodiscard]] std::vector<std::uint32_t> rail_bounds(Rank of_rail) const;

 private:
  const Layout* layout_;
  std::vector<Rank> root_members_;
};

}  // namespace coll
