// SPDX-License-Identifier: Apache-2.0
// A single rank: a copy, or nothing.
//
// Algorithm: local
// Idea: a single rank has its result already: it copies input to output, which costs nothing in
//   place. A reduction over one contribution is that contribution, whatever the operation.
// Cost: for | steps | rounds | sent/S | received/S | reduced/S | scratch | message | connections
//   all_reduce     | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   reduce         | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   broadcast      | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   all_gather     | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   reduce_scatter | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   all_to_all     | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   gather         | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   scatter        | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0
//   barrier        | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0
// Wins: always with one rank, and only then.
// Source: none.
#include "collectives/patterns.hpp"
#include "collectives/rank_math.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace local {
namespace {

using enum Collective;

bool supports(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return spec.ranks == 1 && !one_of(spec.collective, send, recv);
}

Cost cost(const CollectiveSpec& spec, const Layout& /*layout*/) {
  return {.steps = spec.collective == barrier ? 0U : 1U};
}

Schedule build(const CollectiveSpec& spec, const Layout& /*layout*/, Rank rank) {
  Schedule schedule = start_schedule("local", spec, rank, 1);
  if (spec.collective != barrier) LaneBuilder(schedule.lanes[0]).copy(input(0), output(0));
  return schedule;
}

}  // namespace
}  // namespace local

constinit const Algorithm kLocal{"local",         "one rank alone: a copy, or nothing in place",
                                 local::supports, local::cost,
                                 local::build,    true};

}  // namespace coll
