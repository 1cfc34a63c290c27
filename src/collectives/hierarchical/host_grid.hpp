// SPDX-License-Identifier: Apache-2.0
// The ranks as hosts times rails, for hierarchical algorithms.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/layout.hpp"

namespace coll {

/// Hosts times rails, as seen by one rank. On each rail every host has a *team*, one or more of its
/// ranks; one of them is its *owner*: the first, or the operation's root. Owners of a host are its
/// *row*, owners of a rail that rail's *line*. Equal hosts have teams of one rank; where hosts
/// differ, there are as many rails as the smallest one has ranks, and members of larger ones are
/// dealt out to the teams.
class HostGrid {
 public:
  /// `rails`: 0 for as many as the smallest host has ranks. `root`: kNoRank where there is none.
  HostGrid(const Layout& layout, Rank rails, Rank root, Rank rank);

  Rank hosts = 0, rails = 0;
  Rank host = 0;  ///< of the rank
  Rank rail = 0;  ///< of the rank
  Rank turn = 0;  ///< of the rank in its team
  Rank root_host = kNoRank, root_rail = kNoRank, root_turn = 0;
  Rank largest_team = 1;
  bool even = true;  ///< hosts are equal, their ranks consecutive, and first ones own their teams

  /// The turn of the owner in the rank's team.
  [[nodiscard]] Rank owner() const {
    return host == root_host && rail == root_rail ? root_turn : 0;
  }
  [[nodiscard]] bool owns() const { return turn == owner(); }
  [[nodiscard]] const std::vector<Rank>& members(Rank of_host) const {
    return layout_->members_of(of_host);
  }
  [[nodiscard]] Rank place() const { return rail + turn * rails; }  ///< in members(host)
  [[nodiscard]] Rank team_size(Rank of_host, Rank of_rail) const {
    return (static_cast<Rank>(members(of_host).size()) - of_rail + rails - 1) / rails;
  }
  [[nodiscard]] std::vector<Rank> team() const;  ///< the rank's own
  [[nodiscard]] std::vector<Rank> row() const;   ///< of the rank's host
  [[nodiscard]] std::vector<Rank> line() const;  ///< of the rank's rail

  /// The ranks of a rail, team by team: bounds[h] is the first one of host h among them.
  [[nodiscard]] std::vector<Rank> rail_ranks(Rank of_rail) const;
  [[nodiscard]] std::vector<std::uint32_t> rail_bounds(Rank of_rail) const;

 private:
  [[nodiscard]] Rank owner_of(Rank of_host, Rank of_rail) const;
  const Layout* layout_;
};

}  // namespace coll
