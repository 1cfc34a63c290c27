// SPDX-License-Identifier: Apache-2.0
// Clusters of equal hosts, of any number.
#pragma once
#include <optional>

#include "planner/machine_network.hpp"
#include "planner/prediction.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// Equal hosts on a network that no traffic fills: what leaves a host is bounded by its NICs, as
/// between two hosts under one switch. Rail-optimised and other full fat trees are so for traffic
/// that is spread evenly.
struct RegularCluster {
  World pair;         ///< of the ranks of two hosts
  Rank per_host = 1;  ///< ranks
};

/// From a topology of at least two hosts with GPUs, of which it takes the first two; an error where
/// these differ.
Result<RegularCluster> regular_cluster(const Topology& topology);

/// The world of so many hosts.
World world_of(const RegularCluster& cluster, Rank hosts);

/// Steps that are worth simulating for one point of a curve, all ranks and passes together: some
/// seconds.
inline constexpr double kMostSteps = 1e7;

/// What a call of the algorithm takes there; none if it cannot do it, or if hosts are not all alike
/// to it and all their ranks are too many to simulate.
std::optional<Prediction> predict(const RegularCluster& cluster, Rank hosts,
                                  const Algorithm& algorithm, Collective collective, double bytes,
                                  double most_steps = kMostSteps);

/// No prediction of it is shorter, up to what extrapolation of long calls loses: what a few ranks'
/// schedules show (schedule/least_time.hpp), in milliseconds, however many ranks there are.
double least_us(const RegularCluster& cluster, Rank hosts, const Algorithm& algorithm,
                Collective collective, double bytes);

/// Of all algorithms whose call can be predicted the fastest, by branch and bound: those that could
/// be the fastest are simulated, the most promising first, until what is left takes longer even at
/// the least.
struct Fastest {
  const Algorithm* algorithm = nullptr;
  Prediction prediction;
  int simulated = 0;  ///< algorithms
};
std::optional<Fastest> fastest(const RegularCluster& cluster, Rank hosts, Collective collective,
                               double bytes);

/// Whether all groups of a rank's host do the same, as far as time is concerned: a sample of ranks
/// and steps has peers moved by the symmetry, and messages as long. (verify_symmetric.hpp proves it
/// whole, where a proof is wanted.)
bool looks_symmetric(const std::function<Schedule(Rank)>& build, Rank ranks,
                     const Symmetry& symmetry);

}  // namespace coll
