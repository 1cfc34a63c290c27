// SPDX-License-Identifier: Apache-2.0
// Predicts how long a plan's calls take, by simulating its schedules or by a closed formula.
#pragma once
#include <limits>
#include <string>

#include "planner/plan.hpp"
#include "planner/world.hpp"
#include "schedule/simulate/network.hpp"

namespace coll {

/// The predicted time of a plan's calls, and what limits it.
struct Prediction {
  double us = 0;       ///< of a single call
  double each_us = 0;  ///< per call of many calls in a row; on a described machine equal to `us`
  std::string bottleneck;  ///< a link's name, "processor" or "latency"; "" if not simulated
  double busy = 0;         ///< the share of the time that the bottleneck is busy

  /// Whether this takes more than `times` the time of `than`. It compares geometric means in which
  /// each_us counts twice, because programs wait for some calls and issue more of them in a row. It
  /// compares their cubes, because libraries round roots differently.
  [[nodiscard]] bool slower(double times, const Prediction& than) const {
    return score() > times * times * times * than.score();
  }
  [[nodiscard]] double score() const { return us * each_us * each_us; }
};

inline constexpr double kAnyScore = std::numeric_limits<double>::infinity();

/// The route of a message that is copied into and out of a slot, within the caches, between ranks
/// with a core each.
Route route_over(const PathCost& path);

/// Do long messages go one way between two ranks with a core each, in calls of `bytes`? Then the
/// sender, which waits, copies a part of what the receiver fetches (shm_share.hpp), and fetching a
/// byte takes SharingCost::helped_fetch of its time.
bool senders_help(const World& world, const CollectiveSpec& spec, double bytes);

/// The network between the ranks of a world for calls of `bytes` by this plan: the world's own if
/// it has one, else shared memory within hosts and TCP between them, at these costs.
Network network_of(const World& world, const CostConstants& costs, const Plan& plan, double bytes);

/// Predicts one call of `bytes` (the size of a rank's larger buffer) by the closed formula. All
/// ranks get the same result, here and from `predict`. The planner compares plans at
/// World::costs_for.
Prediction estimate(const World& world, const CostConstants& costs, const Plan& plan, double bytes);

/// Predicts by simulation where is_simulated says so, else by `estimate`. Simulation handles up to
/// kMostSimulatedRanks ranks, or kMostDescribedRanks on a described machine. It does not handle
/// send and recv, whose two ends plan separately. A plan whose score is certain to be above
/// `most_score` takes for ever; only on machines that are not described.
Prediction predict(const World& world, const CostConstants& costs, const Plan& plan, double bytes,
                   double most_score = kAnyScore);
/// The time to expect of a plan that was chosen, on the machine as the ranks measured it.
Prediction expect(const World& world, const Plan& plan, double bytes);
inline constexpr Rank kMostSimulatedRanks = 32, kMostDescribedRanks = 256;
/// A lower bound of the simulated time, up to the error of extrapolating long calls. Much cheaper
/// than a simulation.
double least_us(const World& world, const CostConstants& costs, const Plan& plan, double bytes);
bool is_simulated(const World& world, const CollectiveSpec& spec);

}  // namespace coll
