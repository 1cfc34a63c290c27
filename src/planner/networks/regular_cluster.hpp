// SPDX-License-Identifier: Apache-2.0
// Predictions for clusters of any number of equal hosts.
#pragma once
#include <optional>

#include "planner/networks/machine_network.hpp"
#include "planner/prediction.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// Equal hosts on a network that no traffic fills: only its NICs limit what leaves a host, as
/// between two hosts under one switch. Rail-optimised and other full fat trees behave like this for
/// evenly spread traffic.
struct RegularCluster {
  World pair;         ///< the ranks of two hosts
  Rank per_host = 1;  ///< ranks per host
};

/// Makes a cluster from the first two hosts of a topology. Fails if the topology has fewer than two
/// hosts with GPUs, or if these two differ.
Result<RegularCluster> regular_cluster(const Topology& topology);

/// The world of the cluster with `hosts` hosts.
World world_of(const RegularCluster& cluster, Rank hosts);

/// The most steps to simulate for one point of a curve, over all ranks and passes: some seconds.
inline constexpr double kMostSteps = 4e6;

/// Predicts a call of `bytes` (the size of a rank's larger buffer). None if the algorithm does not
/// support it, or if the algorithm treats hosts differently and all ranks together take more than
/// `most_steps` steps.
std::optional<Prediction> predict(const RegularCluster& cluster, Rank hosts,
                                  const Algorithm& algorithm, Collective collective, double bytes,
                                  double most_steps = kMostSteps);

/// A lower bound of the predicted microseconds, up to the error of extrapolating long calls. It
/// looks at a few ranks' schedules only (schedule/simulate/least_time.hpp), so it takes
/// milliseconds for any number of ranks.
double least_us(const RegularCluster& cluster, Rank hosts, const Algorithm& algorithm,
                Collective collective, double bytes);

/// The fastest of all algorithms that can be predicted, found by branch and bound: it simulates the
/// most promising algorithm first and stops when the lower bounds of all others are longer than the
/// best prediction.
struct Fastest {
  const Algorithm* algorithm = nullptr;
  Prediction prediction;
  int simulated = 0;  ///< how many algorithms were simulated
};
std::optional<Fastest> fastest(const RegularCluster& cluster, Rank hosts, Collective collective,
                               double bytes);

/// Whether all groups of the symmetry seem to do the same as far as time is concerned. It samples
/// ranks and steps, and compares their message lengths and their peers, moved by the symmetry.
/// (schedule/proof/verify_symmetric.hpp proves symmetry in full.)
bool looks_symmetric(const std::function<Schedule(Rank)>& build, Rank ranks,
                     const Symmetry& symmetry);

}  // namespace coll
