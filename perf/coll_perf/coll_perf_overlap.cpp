// SPDX-License-Identifier: Apache-2.0
// How much of a call on a stream hides behind what its caller computes.
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
    const double cpu_before = process_cpu();
    const double start = now();
    body();
    took.push_back(now() - start);
    cpu += process_cpu() - cpu_before;
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

Overlap measure_overlap(const Session& session, const Call& call, Compute kind, double estimate_s,
                        long rounds, double target_s) {
  Computation computation(kind);
  const auto give = [&] { session.require(call(), call.name().c_str()); };
  const auto communicate = [&] {
    give();
    session.synchronize();
  };
  Times first;
  for (int i = 0; i < 5; ++i) first.time(session, communicate);
  computation.last(first.median_s(session));

  if (rounds == 0) rounds = std::clamp(static_cast<long>(target_s / (3 * estimate_s)), 5L, 100L);
  Times comm, compute, total;
  for (long round = 0; round < rounds; ++round) {  // in turns: what disturbs one disturbs all
    comm.time(session, communicate);
    compute.time(session, [&] { computation.run(); });
    total.time(session, [&] {
      give();
      computation.run();
      session.synchronize();
    });
  }
  return {comm.median_s(session), compute.median_s(session), total.median_s(session),
          comm.mean_cpu_s(session), total.mean_cpu_s(session)};
}

}  // namespace perf
