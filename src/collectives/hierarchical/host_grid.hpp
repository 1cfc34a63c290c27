// SPDX-License-Identifier: Apache-2.0
// HostGrid: the ranks arranged as hosts times rails, for hierarchical algorithms.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/layout.hpp"

namespace coll {

/// Hosts times rails, as seen by one rank.
///
/// - On each rail every host has a *team*: one or more of its ranks.
/// - One rank of a team is its *owner*: the first, or the operation's root.
/// - The owners of a host are its *row*; the owners of a rail are the rail's *line*.
///
/// With equal hosts a team is one rank. With unequal hosts there are as many rails as the smallest
/// host has ranks, and the ranks of larger hosts are dealt out to the teams.
class HostGrid {
 public:
  /// `rails`: 0 for as many as the smallest host has ranks. `root`: kNoRank if there is none.
  HostGrid(const Layout& layout, Rank rails, Rank root, Rank rank);

  Rank hosts = 0, rails = 0;
  Rank host = 0;  ///< this rank's host
  Rank rail = 0;  ///< this rank's rail
  Rank turn = 0;  ///< this rank's place in its team
  Rank root_host = kNoRank, root_rail = kNoRank, root_turn = 0;
  Rank largest_team = 1;
  bool even = true;  ///< hosts are equal, their ranks consecutive, and first ranks own their teams

  /// The owner's place in this rank's team.
  [[nodiscard]] Rank owner() const {
    return host == root_host && rail == root_rail ? root_turn : 0;
  }
  [[nodiscard]] bool owns() const { return turn == owner(); }
  [[nodiscard]] const std::vector<Rank>& members(Rank of_host) const {
    return layout_->members_of(of_host);
  }
  /// This rank's place in members(host).
  [[nodiscard]] Rank place() const { return rail + turn * rails; }
  [[nodiscard]] Rank team_size(Rank of_host, Rank of_rail) const {
    return (static_cast<Rank>(members(of_host).size()) - of_rail + rails - 1) / rails;
  }
  [[nodiscard]] std::vector<Rank> team() const;  ///< this rank's team
  [[nodiscard]] std::vector<Rank> row() const;   ///< the row of this rank's host
  [[nodiscard]] std::vector<Rank> line() const;  ///< the line of this rank's rail

  /// The ranks of a rail, team by team. rail_bounds()[h] is the index of host h's first rank among
  /// them.
  [[nodiscard]] std::vector<Rank> rail_ranks(Rank of_rail) const;
  [[nodiscard]] std::vector<std::uint32_t> rail_bounds(Rank of_rail) const;

 private:
  [[nodiscard]] Rank owner_of(Rank of_host, Rank of_rail) const;
  const Layout* layout_;
};

}  // namespace coll
