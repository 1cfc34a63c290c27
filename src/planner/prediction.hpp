// SPDX-License-Identifier: Apache-2.0
// How long a plan's calls should take, by simulating its schedules.
#pragma once
#include <string>

#include "planner/plan.hpp"
#include "planner/world.hpp"
#include "schedule/simulate/network.hpp"

namespace coll {

/// What calls of a plan should take, and what bounds them.
struct Prediction {
  double us = 0;           ///< of one call by itself
  double each_us = 0;      ///< of one of many calls in a row; of a described machine, as `us`
  std::string bottleneck;  ///< a link's name, "processor" or "latency"; "" if not simulated
  double busy = 0;         ///< the part of the time that it is

  /// Whether it is so many times as slow as another, or more: programs wait for some calls and give
  /// more of them in a row, so each_us counts twice in a geometric mean. (Its cube, for roots are
  /// rounded differently by different libraries.)
  [[nodiscard]] bool slower(double times, const Prediction& than) const {
    return us * each_us * each_us > times * times * times * than.us * than.each_us * than.each_us;
  }
};

/// What one message meets that is copied in and out within the caches, on cores of their own.
Route route_over(const PathCost& path);

/// The network between the ranks of a world for calls of `bytes` by this plan: shared memory within
/// hosts, TCP between them; or the world's own.
Network network_of(const World& world, const Plan& plan, double bytes);

/// Of one call of `bytes` (the larger buffer of a rank), by a closed formula. The same on all
/// ranks, as is the next.
Prediction estimate(const World& world, const Plan& plan, double bytes);

/// By simulation, where that is feasible: up to so many ranks, of a machine that was described
/// more, and not for send and recv, of which each end plans by itself. Else estimated.
Prediction predict(const World& world, const Plan& plan, double bytes);
inline constexpr Rank kMostSimulatedRanks = 32, kMostDescribedRanks = 256;
/// No simulation of it finds less, up to what extrapolation of long calls loses; much cheaper than
/// to simulate it.
double least_us(const World& world, const Plan& plan, double bytes);
bool is_simulated(const World& world, const CollectiveSpec& spec);

}  // namespace coll
