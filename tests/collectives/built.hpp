// SPDX-License-Identifier: Apache-2.0
// The schedules of all ranks of one call, for tests of algorithms.
#pragma once
#include <string>
#include <vector>

#include "collectives/algorithms.hpp"
#include "schedule/builder.hpp"

namespace coll {

/// Of send and recv, `spec.root` is the peer of the rank before it, which does the operation; that
/// one's peer does the opposite, and all others nothing.
inline std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec,
                                       const Layout& layout) {
  const bool pair = spec.collective == Collective::send || spec.collective == Collective::recv;
  const Rank caller = (spec.root + spec.ranks - 1) % spec.ranks;
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < spec.ranks; ++rank) {
    CollectiveSpec own = spec;
    if (pair && rank == spec.root) {
      own.root = caller;
      own.collective = spec.collective == Collective::send ? Collective::recv : Collective::send;
    }
    if (pair && rank != spec.root && rank != caller) {
      own.root = rank;
      schedules.push_back(start_schedule("idle", own, rank, 1));
    } else {
      schedules.push_back(algorithm.build(own, layout, rank));
    }
  }
  return schedules;
}

inline std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec) {
  return build_all(algorithm, spec, Layout::flat(spec.ranks));
}

/// "ring all_reduce, 5 ranks, root 3".
inline std::string describe(const Algorithm& algorithm, const CollectiveSpec& spec) {
  return std::string(algorithm.name) + ' ' + std::string(name_of(spec.collective)) + ", " +
         std::to_string(spec.ranks) + " ranks, root " + std::to_string(spec.root);
}

inline Collective collective_at(int index) {
  return static_cast<Collective>(index);
}

}  // namespace coll
