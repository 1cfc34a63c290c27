// SPDX-License-Identifier: Apache-2.0
// What hierarchical algorithms are composed of.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/hierarchical/embed.hpp"
#include "collectives/hierarchical/host_grid.hpp"
#include "collectives/rank_math.hpp"

namespace coll {

/// Which algorithms a hierarchical one is made of; null where it does not do the operation.
struct Hierarchy {
  std::string_view name;
  bool leaders;  ///< one rank of each host talks to other hosts, else one on each rail
  bool packed;   ///< inside hosts blocks are copied to go as one message
  const Algorithm* row_reduce_scatter;
  const Algorithm* row_all_gather;
  /// By Collective, between the hosts.
  const Algorithm* line[kCollectives];
};

/// One rank's schedule as it grows, phase by phase. Since all messages of a phase are received in
/// that phase, phases that cannot deadlock cannot do so one after the other.
class Composer {
 public:
  Composer(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout, Rank rank);

  const Hierarchy& how;
  CollectiveSpec spec;
  HostGrid grid;
  Schedule schedule;

  /// Begins the schedule, with `parts` per block.
  void start(std::uint32_t parts);
  LaneBuilder lane() { return LaneBuilder(schedule.lanes[0]); }
  /// A place for so many chunks in the scratch space.
  std::uint32_t room(std::uint32_t chunks);

  /// The part of this rank's host in the operation between hosts, with the root's host as root.
  [[nodiscard]] Schedule line_part() const;
  void on_line(const Schedule& part, Embedding embedding);
  /// Among the owners of this rank's host, with the root's rail as root; those of other hosts take
  /// no part where the operation has a root.
  void in_row(const Algorithm& algorithm, Collective collective, Embedding embedding);
  /// `times` of these, one after the other.
  void in_row(const Algorithm& algorithm, Collective collective, Rank times,
              const std::function<Embedding(std::uint32_t)>& embedding);
  /// Between the ranks of a team and its owner, by a tree.
  void in_team(Collective collective, Embedding embedding);
  /// The part of this rank in an operation among all ranks of its host.
  [[nodiscard]] Schedule host_part(const Algorithm& algorithm, Collective collective) const;
  void in_host(const Schedule& part, Embedding embedding);
  /// for (k = first; k < end; ++k) body(k); as a repeat where the numbers grow evenly. See
  /// LaneBuilder::repeat for what `body` may do.
  void repeat(Rank first, Rank end, const std::function<void(Rank)>& body);

  /// Notes `times` phases, whether or not this rank takes part in them.
  void count(const Algorithm& algorithm, const CollectiveSpec& of, double times = 1);
  /// Of all phases; no chain of messages is longer.
  [[nodiscard]] double rounds() const;

 private:
  struct Phases {
    const Algorithm* algorithm;
    CollectiveSpec spec;
    double times;
  };
  void run(const Schedule& part, std::span<const Rank> group, Embedding embedding, bool joins);
  std::uint32_t room_ = 0;
  std::vector<Phases> phases_;
};

void compose_sums(Composer& composer);      ///< all_reduce, reduce, broadcast, barrier
void compose_blocks(Composer& composer);    ///< all_gather, reduce_scatter, gather, scatter
void compose_exchange(Composer& composer);  ///< all_to_all

}  // namespace coll
