// SPDX-License-Identifier: Apache-2.0
// Composer: builds a hierarchical algorithm's schedule phase by phase from flat algorithms.
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

/// The algorithms that a hierarchical algorithm consists of; null where it does not support an
/// operation.
struct Hierarchy {
  std::string_view name;
  bool leaders;  ///< one rank of each host talks to other hosts; else one rank on each rail
  bool packed;   ///< inside hosts, blocks are copied together to travel as one message
  const Algorithm* row_reduce_scatter;
  const Algorithm* row_all_gather;
  /// The algorithm between hosts, indexed by Collective.
  const Algorithm* line[kCollectives];
};

/// Builds one rank's schedule phase by phase. Every message of a phase is received in that phase,
/// so if no phase can deadlock, their sequence cannot either.
class Composer {
 public:
  Composer(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout, Rank rank);

  const Hierarchy& how;
  CollectiveSpec spec;
  HostGrid grid;
  Schedule schedule;

  /// Begins the schedule, with `parts` parts per block.
  void start(std::uint32_t parts);
  LaneBuilder lane() { return LaneBuilder(schedule.lanes[0]); }
  /// Reserves scratch space for `chunks` chunks and returns the first.
  std::uint32_t room(std::uint32_t chunks);

  /// The schedule of this rank's host in the operation between hosts; the root's host is the root.
  [[nodiscard]] Schedule line_part() const;
  /// Appends that schedule, among the owners of this rank's rail.
  void on_line(const Schedule& part, Embedding embedding);
  /// Appends a phase among the owners of this rank's host, with the root's rail as root. If the
  /// operation has a root, owners of other hosts take no part.
  void in_row(const Algorithm& algorithm, Collective collective, Embedding embedding);
  /// Appends `times` such phases, one after another.
  void in_row(const Algorithm& algorithm, Collective collective, Rank times,
              const std::function<Embedding(std::uint32_t)>& embedding);
  /// Appends a phase between a team's ranks and its owner, by a tree.
  void in_team(Collective collective, Embedding embedding);
  /// This rank's schedule in an operation among all ranks of its host.
  [[nodiscard]] Schedule host_part(const Algorithm& algorithm, Collective collective) const;
  /// Appends that schedule.
  void in_host(const Schedule& part, Embedding embedding);
  /// for (k = first; k < end; ++k) body(k), stored as a repeat if the numbers grow linearly.
  /// LaneBuilder::repeat says what `body` may do.
  void repeat(Rank first, Rank end, const std::function<void(Rank)>& body);

  /// Counts `times` phases for rounds(), whether or not this rank takes part in them.
  void count(const Algorithm& algorithm, const CollectiveSpec& of, double times = 1);
  /// The sum of the rounds of all counted phases: an upper bound of the longest chain of messages.
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
