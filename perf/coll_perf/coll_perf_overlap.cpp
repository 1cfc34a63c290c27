// SPDX-License-Identifier: Apache-2.0
// How much of calls on streams hides behind what their caller computes.
#include "coll_perf/coll_perf_overlap.hpp"

#include <algorithm>
#include <vector>

#include "coll_perf/coll_perf_compute.hpp"

namespace perf {
namespace {

/// One of the three things that are timed, in all rounds.
struct Times {
  std::vector<double> took;
  double cpu = 0;

  template <class Body>
  void time(const Session& session, Body body) {
    session.barrier();
    const double cpu_before = session.cpu_s();
    const double start = now();
    body();
    took.push_back(now() - start);
    cpu += session.cpu_s() - cpu_before;
  }
  /// Over the rounds, of the slowest rank.
  double median_s(const Session& session) {
    session.combine(took, Average::slowest);
    std::nth_element(took.begin(), took.begin() + static_cast<long>(took.size() / 2), took.end());
    return took[took.size() / 2];
  }
  [[nodiscard]] double mean_cpu_s(const Session& session) const {
    std::vector<double> each{cpu / static_cast<double>(took.size())};
    session.combine(each, Average::mean);
    return each[0];
  }
};

}  // namespace

Overlap measure_overlap(const Session& session, CallSet& set, Compute kind, double estimate_s,
                        long rounds, double target_s) {
  Computation computation(kind);
  const auto turns = static_cast<double>(set.turns());
  const double calls = turns * static_cast<double>(set.calls_of_turn());
  /// Gives each call to its stream and does `between` before the next, then waits for all.
  const auto give_all = [&](auto between) {
    for (long turn = 0; turn < set.turns(); ++turn) {
      session.require_alike(set(), set.name().c_str());
      between();
    }
    session.synchronize();
  };
  const auto communicate = [&] { give_all([] {}); };
  Times first;
  for (int i = 0; i < 5; ++i) first.time(session, communicate);
  computation.last(first.median_s(session) / turns);

  if (rounds == 0)
    rounds = std::clamp(static_cast<long>(target_s / (3 * estimate_s * calls)), 5L, 100L);
  Times comm, compute, total;
  for (long round = 0; round < rounds; ++round) {  // in turns: what disturbs one disturbs all
    comm.time(session, communicate);
    compute.time(session, [&] {
      for (long turn = 0; turn < set.turns(); ++turn) computation.run();
    });
    total.time(session, [&] { give_all([&] { computation.run(); }); });
  }
  return {comm.median_s(session) / calls, compute.median_s(session) / calls,
          total.median_s(session) / calls, comm.mean_cpu_s(session) / calls,
          total.mean_cpu_s(session) / calls};
}

}  // namespace perf
